"""Stop strings, characters over several tokens, log-probabilities: behind the real server, at every split."""

from __future__ import annotations

from typing import Any

import pytest

from .answers import declare, see_all, see_script, speaker_splits, write_call
from .clients import TEXT, Api, fold_chat, read_events
from .scripted import Script, bytewise, one_run, whole
from .simulated import Speaker

STOPS: dict[str, tuple[str, Any, str]] = {
    "one": ("ABC DEFGHIJ tail", ["DEFGHIJ"], "ABC "),
    "a string": ("ABC DEFGHIJ tail", "DEFGHIJ", "ABC "),
    "not complete at the end": ("ABC DEFGHI", ["DEFGHIJ"], "ABC DEFGHI"),
    "overlapping": ("aaab", ["aab", "ab"], "a"),
    "one inside the other": ("x abc", ["abc", "b"], "x a"),
    "a character of several bytes": ("sun ☀ rain", ["☀"], "sun "),
    "at the very start": ("STOP it", ["STOP"], ""),
    "newline": ("one\n\ntwo", ["\n\n"], "one"),
    "repeated beginning": ("aaaaab", ["aaab"], "aa"),
}


@pytest.mark.parametrize("name", STOPS)
def test_no_part_of_a_stop_string_is_delivered(speaking: Api, speaker: Speaker, name: str) -> None:
    """SAMP-01: held back until decided, delivered when it was none, the first complete one wins."""
    text, stop, kept = STOPS[name]
    seen = see_all(speaking, speaker, text, stop=stop)
    assert (seen.content, seen.finish) == (kept, "stop")


def test_a_stop_string_may_span_reasoning_and_content(speaking: Api, speaker: Speaker) -> None:
    """SAMP-01: stops are looked for in the raw text, markers included."""
    seen = see_all(speaking, speaker, "abc\n</think>\n\ndef", stop=["c\n</think>\n\nd"], enable_thinking=True)
    assert (seen.reasoning, seen.content, seen.finish) == ("ab", "", "stop")


def test_characters_are_never_cut(speaking: Api, speaker: Speaker) -> None:
    """SAMP-03: byte by byte, in content, reasoning and arguments."""
    text = "🧑‍🚀 修复 é"
    for script in speaker_splits(speaker, text):
        speaker.script = script
        chunks = speaking.stream()
        assert all("�" not in str(chunk) for chunk in chunks)
        assert fold_chat(chunks)["message"]["content"] == text
    call = write_call("fetch", city=text)
    seen = see_all(
        speaking, speaker, f"{text}\n</think>\n\n{call}", tools=[declare("fetch", "city")], enable_thinking=True
    )
    assert (seen.reasoning, seen.arguments()) == (text, {"city": text})


def test_bytes_that_are_no_character(speaking: Api, speaker: Speaker) -> None:
    """SAMP-03: U+FFFD only for bytes that are really invalid, or cut off at the end."""
    cut = "ok 🧑".encode()[:-1]
    for data, expected in ((cut, "ok �"), (b"a\xff\xfeb", "a��b"), (b"\xe4\xbfx", "�x")):
        for steps in (((data,),), tuple((bytes([byte]),) for byte in data)):
            assert see_script(speaking, speaker, Script(steps)).content == expected


def content_entries(answer: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = answer["logprobs"]["content"]
    return entries


TOOLS = [declare("fetch", "city")]
ALIGNED: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("Hello there", {}),
    "characters of several bytes": ("é 🙂 修复", {}),
    "behind reasoning": ("why </th>\n</think>\n\n>think", {"enable_thinking": True}),
    "content like a marker": ("a\n</think>\n\n</th", {"enable_thinking": True}),
    "only reasoning": ("never ends", {"enable_thinking": True}),
    "before a call": ("Look.\n\n" + write_call("fetch", city="Look."), {"tools": TOOLS}),
    "behind a call": (write_call("fetch", city="after") + "\nafter all", {"tools": TOOLS}),
    "markup as text": (write_call("nope", city="x"), {"tools": TOOLS}),
    "stop string": ("one two STOP three", {"stop": ["STOP"]}),
    "leading marker": ("</think>\n\nHi", {}),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_entries_are_the_content_tokens(speaking: Api, speaker: Speaker, name: str) -> None:
    """SAMP-09: joined bytes are the content, at every split; the stream says the same."""
    text, fields = ALIGNED[name]
    for script in speaker_splits(speaker, text):
        speaker.script = script
        (choice,) = speaking.ask(logprobs=True, top_logprobs=2, **fields)["choices"]
        entries = content_entries(choice)
        joined = bytes(byte for entry in entries for byte in entry["bytes"])
        assert joined.decode() == choice["message"]["content"]
        for entry in entries:
            assert set(entry) == {"token", "logprob", "bytes", "top_logprobs"}
            assert len(entry["top_logprobs"]) == 2
            assert entry["logprob"] == max(top["logprob"] for top in entry["top_logprobs"]), "greedy"
        assert content_entries(fold_chat(speaking.stream(logprobs=True, top_logprobs=2, **fields))) == entries


def test_one_entry_a_token_in_order(speaking: Api, speaker: Speaker) -> None:
    """SAMP-09: a run of several tokens gives each its own entry, held-back text or not."""
    speaker.script = one_run("abcdefghijk", 3)
    for fields in ({}, {"stop": ["jkl"]}, {"stop": ["bcx", "hij_"]}):
        (choice,) = speaking.ask(logprobs=True, **fields)["choices"]
        assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["abc", "def", "ghi", "jk"]
        assert all(entry["top_logprobs"] == [] for entry in choice["logprobs"]["content"])


def test_logprobs_are_absent_unless_asked(speaking: Api, speaker: Speaker) -> None:
    assert speaking.ask()["choices"][0]["logprobs"] is None
    assert speaker.requests[-1].logprobs is None
    assert all(c["choices"][0]["logprobs"] is None for c in speaking.stream())


def test_raw_completion_logprobs(speaking: Api, speaker: Speaker) -> None:
    """Parallel lists; offsets point into the text; the chosen token is among the alternatives."""
    speaker.script = bytewise("né 🙂")
    bodies = [speaking.post(TEXT, {"prompt": "x", "logprobs": 2}).json()]
    chunks = read_events(speaking.post(TEXT, {"prompt": "x", "logprobs": 2, "stream": True}).text)
    for choice in (bodies[0]["choices"][0], fold_text(chunks)):
        logprobs = choice["logprobs"]
        assert choice["text"] == "né 🙂"
        count = len("né 🙂".encode())
        assert [len(logprobs[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")] == [
            count
        ] * 4
        for token, value, top in zip(
            logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
        ):
            assert top[token] == value


def fold_text(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    text, finish, logprobs = "", None, None
    for chunk in chunks:
        for choice in chunk["choices"]:
            text += choice["text"]
            finish = choice["finish_reason"] or finish
            if choice["logprobs"] is not None:
                logprobs = logprobs or {name: [] for name in choice["logprobs"]}
                for name, values in choice["logprobs"].items():
                    logprobs[name] += values
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}


@pytest.mark.parametrize("prompt", ["Once upon", [5, 6, 7], [[5, 6, 7]], ["Once upon"]])
@pytest.mark.parametrize("fields", [{}, {"logprobs": 1}, {"stop": ["w"]}, {"max_tokens": 3}])
def test_raw_completion_stream_adds_up_to_the_body(
    speaking: Api, speaker: Speaker, prompt: Any, fields: dict[str, Any]
) -> None:
    for script in (whole("one two three"), bytewise("one two three")):
        speaker.script = script
        body = speaking.post(TEXT, {"prompt": prompt, **fields}).json()
        streamed = {"prompt": prompt, "stream": True, "stream_options": {"include_usage": True}, **fields}
        chunks = read_events(speaking.post(TEXT, streamed).text)
        assert [fold_text(chunks)] == body["choices"]
        counts = ("prompt_tokens", "completion_tokens", "total_tokens")
        assert [chunks[-1]["usage"][name] for name in counts] == [body["usage"][name] for name in counts]
        assert {chunk["object"] for chunk in chunks} == {body["object"]} == {"text_completion"}
        assert body["id"].startswith("cmpl-")


def test_raw_completion_is_raw(speaking: Api, speaker: Speaker) -> None:
    """Markup is text; the default budget is 16; token ids reach the speaker as they are."""
    speaker.script = whole("</think>" + write_call("fetch", city="x"))
    body = speaking.post(TEXT, {"prompt": [7, 8, 9]}).json()
    assert body["choices"][0]["text"] == "</think>" + write_call("fetch", city="x")
    assert list(speaker.requests[-1].plan.tokens)[:3] == [7, 8, 9]
    assert speaker.requests[-1].max_tokens == 16


def test_the_draw_gets_what_was_asked(speaking: Api, speaker: Speaker) -> None:
    """Values, defaults of the model, top_p 0 as greedy, a fresh seed when none is given."""
    speaking.ask(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, presence_penalty=1, frequency_penalty=-1,
        repetition_penalty=1.1, seed=-1, logit_bias={"5": -3}, stop="x",
        logprobs=True, top_logprobs=3, ignore_eos=False,
    )  # fmt: skip
    asked = speaker.requests[-1]
    params = asked.params
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.9, 7, 0.1)
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (1.0, -1.0, 1.1)
    assert (params.seed, dict(params.logit_bias)) == (2**64 - 1, {5: -3.0})
    assert (asked.stop, asked.logprobs) == (("x",), 3)
    speaking.ask(top_p=0)
    assert (speaker.requests[-1].params.top_p, speaker.requests[-1].params.top_k) == (1.0, 1)
    speaking.ask()
    speaking.ask()
    assert speaker.requests[-1].params.seed != speaker.requests[-2].params.seed
    assert speaker.requests[-1].params.temperature == speaker.default_sampling.temperature
