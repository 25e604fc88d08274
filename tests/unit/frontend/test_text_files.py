"""A model directory's text files: read completely, identified by content, refused by name when damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from text_world import FIXTURE_DIR, IDENTITY, chat, user

from ninfer.base.errors import BadInput, ModelFileError
from ninfer.frontend.files import read_text_files, text_identity
from ninfer.frontend.frontend import Frontend

NAMES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "config.json")


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copy(FIXTURE_DIR / name, tmp_path)
    return tmp_path


def rewrite_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_identity_follows_the_content_of_tokenizer_and_template(model_dir: Path) -> None:
    """[decision 19] stable over places, changed by any byte of tokenizer or template, not by stop tokens."""
    identity = text_identity(model_dir)
    assert identity == text_identity(FIXTURE_DIR)
    (model_dir / "generation_config.json").write_text("{}")
    assert text_identity(model_dir) == identity
    seen = {identity}
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        with (model_dir / name).open("a") as file:
            file.write(" ")
        seen.add(text_identity(model_dir))
    (model_dir / "chat_template.jinja").unlink()
    seen.add(text_identity(model_dir))
    assert len(seen) == 5


def test_added_tokens_of_both_files_are_merged(model_dir: Path) -> None:
    """The published tokenizer.json stops before the last ids that tokenizer_config.json names."""
    tokenizer = json.loads((model_dir / "tokenizer.json").read_text())
    full = read_text_files(model_dir)
    kept = [entry for entry in tokenizer["added_tokens"] if entry["id"] < 310]
    rewrite_json(model_dir / "tokenizer.json", added_tokens=kept)
    merged = read_text_files(model_dir)
    assert merged.added == full.added
    assert merged.vocab_tokens == full.vocab_tokens == 317
    (model_dir / "tokenizer_config.json").unlink()
    assert read_text_files(model_dir).vocab_tokens == 310


def test_stop_tokens_come_from_where_they_are_named(model_dir: Path) -> None:
    assert read_text_files(model_dir).stop_token_ids == {284, 286}
    rewrite_json(model_dir / "generation_config.json", eos_token_id=284)
    assert read_text_files(model_dir).stop_token_ids == {284, 286}, "the tokenizer's end of turn counts as well"
    (model_dir / "generation_config.json").unlink()
    rewrite_json(model_dir / "config.json", eos_token_id=7)
    assert read_text_files(model_dir).stop_token_ids == {7, 286}
    (model_dir / "tokenizer_config.json").unlink()
    rewrite_json(model_dir / "config.json", eos_token_id=None)
    with pytest.raises(ModelFileError, match="no stop token"):
        read_text_files(model_dir)


def test_the_template_may_stand_in_three_places(model_dir: Path) -> None:
    text = (model_dir / "chat_template.jinja").read_text()
    (model_dir / "chat_template.jinja").unlink()
    named = [{"name": "other", "template": "x"}, {"name": "default", "template": text}]
    for value in (text, named):
        rewrite_json(model_dir / "tokenizer_config.json", chat_template=value)
        assert read_text_files(model_dir).template == text
    (model_dir / "chat_template.json").write_text(json.dumps({"chat_template": "first"}))
    assert read_text_files(model_dir).template == "first"
    (model_dir / "chat_template.jinja").write_text("before all")
    assert read_text_files(model_dir).template == "before all"


def test_a_model_without_template_still_completes(model_dir: Path) -> None:
    (model_dir / "chat_template.jinja").unlink()
    frontend = Frontend.from_dir(model_dir, IDENTITY, 100)
    assert len(frontend.plan_text("hello").tokens) > 0
    with pytest.raises(BadInput) as caught:
        frontend.plan_chat(chat(user("x")))
    assert caught.value.param == "messages"


DAMAGE = {
    "tokenizer.json is missing": lambda d: (d / "tokenizer.json").unlink(),
    "tokenizer.json is not valid JSON": lambda d: (d / "tokenizer.json").write_text("{"),
    "tokenizer.json must hold": lambda d: (d / "tokenizer.json").write_text("[]"),
    "tokenizer.json: only byte-level": lambda d: rewrite_json(d / "tokenizer.json", model={"type": "Unigram"}),
    "tokenizer.json cannot be loaded": lambda d: rewrite_json(d / "tokenizer.json", model={"type": "BPE", "vocab": 3}),
    "lists of added tokens": lambda d: rewrite_json(d / "tokenizer.json", added_tokens=7),
    "has no text": lambda d: rewrite_json(d / "tokenizer_config.json", added_tokens_decoder={"x": {"content": "<a>"}}),
    "swallows neighbours": lambda d: rewrite_json(
        d / "tokenizer.json", added_tokens=[{"id": 300, "content": "<mask>", "lstrip": True}]
    ),
    "chat_template.jinja is not UTF-8": lambda d: (d / "chat_template.jinja").write_bytes(b"\xff\xfe"),
    "chat template cannot be compiled": lambda d: (d / "chat_template.jinja").write_text("{% for %}"),
    "tokenizer_config.json is not valid JSON": lambda d: (d / "tokenizer_config.json").write_text("nope"),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damage_is_named(model_dir: Path, message: str) -> None:
    DAMAGE[message](model_dir)
    with pytest.raises(ModelFileError, match=message):
        Frontend.from_dir(model_dir, IDENTITY, 100)


def test_template_variables_name_the_special_tokens(model_dir: Path) -> None:
    """As the reference renderer has them: those that are set, under their names."""
    source = "{{ eos_token }}|{{ pad_token }}|{{ bos_token is defined }}|{{ enable_thinking }}"
    (model_dir / "chat_template.jinja").write_text(source)
    frontend = Frontend.from_dir(model_dir, IDENTITY, 100)
    assert frontend.render(chat(user("x"), enable_thinking=True)) == "<|im_end|>|<|endoftext|>|False|True"
