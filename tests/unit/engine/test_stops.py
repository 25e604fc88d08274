"""Stop rules: every split of a text gives the same output, and nothing behind a stop is accepted (SAMP-01)."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.base.ids import LaneId
from ninfer.engine.stops import StopStrings, StopWatch, forbid
from ninfer.ports.device import RunResult
from ninfer.ports.output import FinishReason
from ninfer.ports.sampling import TokenLogprobs

END = 9999


class Pieces:
    """A decoder whose token i is the i-th piece of bytes."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._pieces[token_id])

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


def cut(content: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(set(places)), len(content)]
    return [content[a:b] for a, b in pairwise(edges) if a < b]


def watch(pieces: Sequence[bytes], stops: Sequence[str], budget: int = 10_000) -> StopWatch:
    return StopWatch(Pieces(pieces), stop_token_ids=frozenset({END}), stop_strings=stops, budget_tokens=budget)


def read(pieces: Sequence[bytes], stops: Sequence[str], run_tokens: int) -> tuple[str, str | None, int]:
    """Text, stop string and accepted tokens, with the pieces dealt in runs; ends with a stop token."""
    ids = [*range(len(pieces)), END]
    watched = watch(pieces, stops)
    text, accepted = "", 0
    for start in range(0, len(ids), run_tokens):
        verdict = watched.preview(RunResult(LaneId(0), tuple(ids[start : start + run_tokens])))
        text += verdict.text
        accepted += verdict.accepted
        if verdict.reason is not None:
            assert verdict.reason is FinishReason.STOP
            return text, verdict.stop_string, accepted
    raise AssertionError("the stop token was not seen")


def reference(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The first stop string to be complete; of several that end together the one that starts first."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


CASES = [
    ("ABC DEFGHIJ tail", ["DEFGHIJ"], "ABC "),
    ("aaab", ["aab", "ab"], "a"),
    ("abcd", ["abcd", "bc"], "a"),
    ("ABC DEFGHI", ["DEFGHIJ"], "ABC DEFGHI"),
    ("plan</think>answer", ["</think>"], "plan"),
    ("think</think>no", ["k</think>n"], "thin"),
    ("x é y", ["é"], "x "),
    ("🧑‍🚀 修复 é end", ["修复"], "🧑‍🚀 "),
    ("ababac", ["abac"], "ab"),
    ("nothing here", ["zzz", "q"], "nothing here"),
]


@pytest.mark.parametrize(("text", "stops", "kept"), CASES)
def test_every_single_split_gives_the_same_output(text: str, stops: list[str], kept: str) -> None:
    """SAMP-01: part of a stop string is never streamed, whatever the tokens are."""
    assert reference(text, stops)[0] == kept
    content = text.encode()
    for place in range(len(content)):
        pieces = cut(content, [place])
        for run_tokens in (1, 8):
            assert read(pieces, stops, run_tokens)[:2] == reference(text, stops), place


@pytest.mark.parametrize(("text", "stops", "kept"), CASES)
def test_byte_by_byte_and_all_at_once_agree(text: str, stops: list[str], kept: str) -> None:
    content = text.encode()
    for pieces in (cut(content, range(len(content))), [content]):
        for run_tokens in (1, 3, 8):
            assert read(pieces, stops, run_tokens)[0] == kept


@settings(derandomize=True, database=None, deadline=None)
@given(
    st.text("ab<", min_size=0, max_size=24),
    st.lists(st.text("ab<", min_size=1, max_size=4), min_size=1, max_size=4),
    st.sets(st.integers(0, 24)),
    st.integers(1, 8),
)
def test_any_text_any_stops_any_split(text: str, stops: list[str], places: set[int], run_tokens: int) -> None:
    pieces = cut(text.encode(), places)
    assert read(pieces, stops, run_tokens)[:2] == reference(text, stops)


def test_nothing_that_may_still_become_a_stop_is_published() -> None:
    watched = watch([b"ab", b"c", b"x"], ["abcd"])
    assert watched.preview(RunResult(LaneId(0), (0,))).text == ""
    assert watched.preview(RunResult(LaneId(0), (1,))).text == ""
    assert watched.preview(RunResult(LaneId(0), (2,))).text == "abcx"


def test_tokens_behind_a_stop_in_a_run_are_not_accepted() -> None:
    """Settled decision 15: a run is committed up to its first stop."""
    watched = watch([b"a", b"STOP", b"b"], ["STOP"])
    verdict = watched.preview(RunResult(LaneId(0), (0, 1, 2)))
    assert (verdict.accepted, verdict.text, verdict.stop_string) == (2, "a", "STOP")
    assert [token.token_id for token in verdict.tokens] == [0]

    watched = watch([b"a", b"b"], [])
    verdict = watched.preview(RunResult(LaneId(0), (0, END, 1)))
    assert (verdict.accepted, verdict.text, verdict.stop_token) == (2, "a", END)


def test_the_budget_ends_a_run_and_flushes_what_was_held() -> None:
    watched = watch([b"S", b"T", b"O"], ["STOP"], budget=2)
    verdict = watched.preview(RunResult(LaneId(0), (0, 1, 2)))
    assert (verdict.accepted, verdict.reason, verdict.text) == (2, FinishReason.LENGTH, "ST")
    assert [token.token_id for token in verdict.tokens] == [0, 1]


def test_a_stop_at_the_last_budgeted_token_is_a_stop() -> None:
    watched = watch([b"S", b"TOP"], ["STOP"], budget=2)
    watched.preview(RunResult(LaneId(0), (0,)))
    verdict = watched.preview(RunResult(LaneId(0), (1,)))
    assert (verdict.reason, verdict.stop_string, verdict.text) == (FinishReason.STOP, "STOP", "")


def test_half_a_character_is_never_text() -> None:
    """SAMP-03: bytes of one character over several tokens; a cut one at the end becomes U+FFFD."""
    pieces = cut("é修".encode(), range(5))
    watched = watch(pieces, [])
    texts = [watched.preview(RunResult(LaneId(0), (index,))).text for index in range(len(pieces))]
    assert texts == ["", "é", "", "", "修"]

    watched = watch(pieces, [], budget=1)
    assert watched.preview(RunResult(LaneId(0), (0,))).text == "\ufffd"


def test_tokens_are_published_with_the_text_that_begins_in_them() -> None:
    logprobs = (TokenLogprobs(-0.5), TokenLogprobs(-0.25))
    watched = watch([b"xS", b"T!"], ["STOP"])
    first = watched.preview(RunResult(LaneId(0), (0,), logprobs[:1]))
    assert (first.text, [token.token_id for token in first.tokens]) == ("x", [0])
    second = watched.preview(RunResult(LaneId(0), (1,), logprobs[1:]))
    assert (second.text, [token.token_id for token in second.tokens]) == ("ST!", [1])
    assert second.tokens[0].logprobs == logprobs[1]


def test_cancel_releases_what_was_held() -> None:
    watched = watch([b"ST"], ["STOP"])
    assert watched.preview(RunResult(LaneId(0), (0,))).text == ""
    rest = watched.close()
    assert (rest.text, rest.reason) == ("ST", FinishReason.CANCELLED)


def test_thousands_of_stop_strings_cost_a_step_a_character() -> None:
    stops = StopStrings([f"stop-{number}-" for number in range(5000)])
    state = 0
    for character in "x" * 10_000 + "stop-4999-":
        state = stops.step(state, character)
    assert stops.match(state) == "stop-4999-"


@pytest.mark.parametrize("text", ["xSTOPySTOPz", "STSTOPSTOP!", "éSTOP修STOP"])
def test_a_floor_leaves_early_stop_strings_in_the_text(text: str) -> None:
    """A string that a token within the floor completes is text; one completed by a later token stops."""
    pieces = cut(text.encode(), range(len(text.encode())))
    for floor in range(len(pieces) + 1):
        watched = StopWatch(
            Pieces(pieces), stop_token_ids=frozenset({END}), stop_strings=["STOP"], budget_tokens=99, min_tokens=floor
        )
        said, seen = "", None
        for token_id in [*range(len(pieces)), END]:
            verdict = watched.preview(RunResult(LaneId(0), (token_id,)))
            said += verdict.text
            if verdict.reason is not None:
                seen = verdict.stop_string
                break
        ends = [len(text[: at + 4].encode()) for at in range(len(text)) if text.startswith("STOP", at)]
        late = [end for end in ends if end > floor]
        assert seen == ("STOP" if late else None)
        assert said == (text.encode()[: late[0] - 4].decode() if late else text)


def test_the_floor_masks_stop_tokens_and_only_them() -> None:
    watched = StopWatch(
        Pieces([b"a", b"b"]),
        stop_token_ids=frozenset({3, 9}),
        stop_strings=[],
        budget_tokens=9,
        min_tokens=2,
        early_mask=forbid(frozenset({3, 9}), 11),
    )
    for token_id in (0, 1):
        mask = watched.mask
        assert mask is not None
        assert [token for token in range(11) if not mask[token // 8] >> token % 8 & 1] == [3, 9]
        watched.preview(RunResult(LaneId(0), (token_id,)))
    assert watched.mask is None
