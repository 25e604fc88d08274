"""The bundled model's own byte-level BPE: trained on generator text, with the family's pipeline and added tokens.

Merges come in two ranks. Inner merges are learned on bare words. Prefix merges (a space, a quote, an underscore glued
to the first piece) come after all of them, so a word has the same pieces wherever it stands and only its first piece
differs: copying a name into another place is copying tokens.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from training import words as W
from training.dialogues import conversation
from training.render import render
from training.source import Source

BASE_ENTRIES = 4000
INNER_ENTRIES = 2400  # bytes and inner merges; the rest are prefix merges
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPACE = "\u0120"  # how the byte alphabet writes a space
_GLUED = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
# (text, special): the family's order
ADDED: tuple[tuple[str, bool], ...] = tuple(
    (text, special)
    for special, texts in (
        (
            True,
            "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end"
            "|> <|quad_start|> <|quad_end|>",
        ),
        (True, "<|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"),
        (
            False,
            "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <"
            "|file_sep|>",
        ),
        (False, "<tool_response> </tool_response> <think> </think>"),
        (
            True,
            "<|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> <tts_text_bos_single> <|audio_pad|>",
        ),
    )
    for text in texts.split()
)
_SPECIALS = tuple(text for text, _ in ADDED)


def _texts(count: int) -> Iterator[str]:
    """Generator text without control tokens, ordinary words added so that free typing splits little."""
    plain = " ".join((*W.COMMON, *W.PEOPLE, *W.PLACES, *W.FOODS, *W.OBJECTS, *W.THINGS))
    for seed in range(count):
        talk = conversation(9_000_000 + seed, 3000)
        text = render(talk.messages, [t.schema for t in talk.tools])
        for mark in _SPECIALS:
            text = text.replace(mark, "\n")
        yield text
        if seed % 40 == 0:
            yield plain
            yield " ".join(Source(seed).pick(W.COMMON).capitalize() for _ in range(60))


def _pipeline(tokenizer: Tokenizer, split: str) -> Tokenizer:
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _prefix_merges(inner: Tokenizer, texts: list[str]) -> list[tuple[str, str]]:
    """Pairs of a leading mark and the first inner piece of the word behind it, the most frequent first."""
    whole = _pipeline(Tokenizer(models.BPE()), SPLIT).pre_tokenizer
    words: Counter[str] = Counter()
    for text in texts:
        words.update(piece for piece, _ in whole.pre_tokenize_str(text))
    pairs: Counter[tuple[str, str]] = Counter()
    for word, times in words.items():
        mark = word[0] == _SPACE or not word[0].isalnum()
        if len(word) > 1 and mark and word[1:].isascii() and word[1:].isalpha():
            pairs[word[0], inner.encode(word[1:]).tokens[0]] += times
    return [pair for pair, _ in sorted(pairs.items(), key=lambda kv: (-kv[1], kv[0]))]


def build(conversations: int) -> Tokenizer:
    """Train the merges; every byte stays encodable."""
    texts = list(_texts(conversations))
    inner = _pipeline(Tokenizer(models.BPE()), SPLIT.replace(_GLUED, r"[\p{L}\p{M}]+"))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=INNER_ENTRIES, show_progress=False, initial_alphabet=alphabet)
    )
    model = json.loads(inner.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    for mark, piece in _prefix_merges(inner, texts):
        if mark + piece not in vocab and len(vocab) < BASE_ENTRIES:
            vocab[mark + piece] = len(vocab)
            merges.append((mark, piece))
    assert len(vocab) == BASE_ENTRIES, len(vocab)
    tokenizer = _pipeline(Tokenizer(models.BPE(vocab=vocab, merges=merges)), SPLIT)
    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False) for text, special in ADDED])
    return tokenizer


def config(tokenizer: Tokenizer, template: str) -> dict[str, object]:
    """tokenizer_config.json."""
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    decoder = {
        str(tokenizer.token_to_id(text)): {"content": text, **flags, "special": special} for text, special in ADDED
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "bos_token": None,
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 8192,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def main() -> None:
    """Write tokenizer.json and tokenizer_config.json; the second holds the chat template."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, default=Path("src/ninfer/bundled_model"), help="folder with the chat template"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for both files")
    parser.add_argument(
        "--force", action="store_true", help="replace a tokenizer that is there: weights go with theirs"
    )
    parser.add_argument("--conversations", type=int, default=6000)
    args = parser.parse_args()
    if (args.out / "tokenizer.json").exists() and not args.force:
        parser.error(f"{args.out} holds a tokenizer; --force replaces it")
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = build(args.conversations)
    tokenizer.save(str(args.out / "tokenizer.json"), pretty=False)
    template = (args.model / "chat_template.jinja").read_text()
    text = json.dumps(config(tokenizer, template), indent=1, ensure_ascii=False)
    (args.out / "tokenizer_config.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
