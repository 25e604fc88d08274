"""The text files of a model directory: tokenizer, template, stop tokens; and their identity.

Knows file names and JSON layouts of the Hugging Face form. Builds no prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from ninfer.base.errors import ModelFileError

_IDENTITY_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json")
_IDENTITY_BYTES = 16

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token matched as a whole before BPE. `special` ones give no text when detokenized."""

    id: int
    text: str
    special: bool


@dataclass(frozen=True, slots=True)
class TextFiles:
    """What the text side needs of a model directory.

    `plain`: the tokenizer without its added tokens; it never yields one of their ids. `vocab_tokens`: highest id the
    tokenizer can write, plus one. `template`: None when the directory has none (raw completion still works).
    """

    plain: Tokenizer
    added: tuple[AddedToken, ...]
    vocab_tokens: int
    template: str | None
    special_tokens: Mapping[str, str]
    stop_token_ids: frozenset[int]


def text_identity(model_dir: Path) -> bytes:
    """Digest of tokenizer and template, part of the execution identity (settled decision 19)."""
    hasher = hashlib.blake2b(digest_size=_IDENTITY_BYTES)
    for name in _IDENTITY_FILES:
        path = model_dir / name
        content = path.read_bytes() if path.is_file() else b""
        hasher.update(f"{name}:{path.is_file()}:{len(content)}:".encode())
        hasher.update(content)
    return hasher.digest()


def read_text_files(model_dir: Path) -> TextFiles:
    """Raises ModelFileError, naming the file, when one is missing, damaged or of a kind that is not served."""
    config = _read_json(model_dir / "tokenizer_config.json", required=False)
    tokenizer = _read_json(model_dir / "tokenizer.json", required=True)
    added = _read_added(tokenizer, config, model_dir)
    special_tokens = _read_special_tokens(config)
    plain = _plain_tokenizer(tokenizer, model_dir / "tokenizer.json")
    highest = max((token.id for token in added), default=-1)
    vocab = plain.get_vocab(with_added_tokens=False)
    return TextFiles(
        plain=plain,
        added=added,
        vocab_tokens=max(highest, max(vocab.values(), default=-1)) + 1,
        template=_read_template(model_dir, config),
        special_tokens=special_tokens,
        stop_token_ids=_read_stops(model_dir, special_tokens, {token.text: token.id for token in added} | vocab),
    )


def _read_json(path: Path, *, required: bool) -> JsonObject:
    if not path.is_file():
        if required:
            raise ModelFileError(f"{path} is missing")
        return {}
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} must hold a JSON object")
    return value


def _plain_tokenizer(tokenizer: JsonObject, path: Path) -> Tokenizer:
    model, decoder = tokenizer.get("model"), tokenizer.get("decoder")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or "ByteLevel" not in json.dumps(decoder):
        raise ModelFileError(f"{path}: only byte-level BPE tokenizers are served")
    stripped = {**tokenizer, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    try:
        return Tokenizer.from_str(json.dumps(stripped))
    except Exception as error:  # the library raises bare Exception for any damaged file
        raise ModelFileError(f"{path} cannot be loaded: {error}") from error


def _read_added(tokenizer: JsonObject, config: JsonObject, model_dir: Path) -> tuple[AddedToken, ...]:
    """Both lists merged: a tokenizer.json may stop before the last ids that its configuration names."""
    listed = tokenizer.get("added_tokens") or []
    decoder = config.get("added_tokens_decoder") or {}
    if not isinstance(listed, list) or not isinstance(decoder, dict):
        raise ModelFileError(f"{model_dir}: the lists of added tokens are damaged")
    entries = [(number, entry) for number, entry in decoder.items()]
    entries += [(entry.get("id"), entry) for entry in listed if isinstance(entry, dict)]
    found: dict[int, AddedToken] = {}
    for number, entry in entries:
        text = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(text, str) or not str(number).isdecimal():
            raise ModelFileError(f"{model_dir}: added token {number} has no text")
        if len(text) < 2 or any(entry.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            raise ModelFileError(f"{model_dir}: added token {text!r} swallows neighbours or is too short to be served")
        found[int(number)] = AddedToken(int(number), text, bool(entry.get("special")))
    return tuple(found[number] for number in sorted(found))


def _read_special_tokens(config: JsonObject) -> dict[str, str]:
    named: dict[str, str] = {}
    for key in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        value = config.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            named[key] = text
    return named


def _read_template(model_dir: Path, config: JsonObject) -> str | None:
    plain = model_dir / "chat_template.jinja"
    if plain.is_file():
        try:
            return plain.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(f"{plain} is not UTF-8") from error
    value = _read_json(model_dir / "chat_template.json", required=False).get("chat_template")
    value = config.get("chat_template") if value is None else value
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None


def _read_stops(model_dir: Path, special: Mapping[str, str], ids: Mapping[str, int]) -> frozenset[int]:
    """generation_config.json decides; without it config.json; the tokenizer's end of turn always counts."""
    stops: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = _read_json(model_dir / name, required=False).get("eos_token_id")
        listed = value if isinstance(value, list) else [value]
        stops.update(item for item in listed if isinstance(item, int))
        if stops:
            break
    end = special.get("eos_token")
    if end is not None and end in ids:
        stops.add(ids[end])
    if not stops:
        raise ModelFileError(f"{model_dir}: no stop token is named in generation_config.json or config.json")
    return frozenset(stops)
