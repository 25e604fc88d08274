"""How long a prefill chunk may be beside decoding lanes ([J7])."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.sched.chunks import ChunkSizer, PrefillWork

WORK = PrefillWork(per_token=1000.0, per_pair=0.5)


@settings(derandomize=True, max_examples=200)
@given(
    frontier=st.integers(0, 100_000),
    ahead=st.integers(1, 5000),
    gap_s=st.one_of(st.none(), st.floats(0, 0.5)),
    rate=st.floats(1e5, 1e9),
)
def test_a_chunk_moves_ends_on_pages_and_keeps_the_gap(frontier: int, ahead: int, gap_s: float | None, rate: float):
    """[J7]: progress always; ends on multiples of 64 or at the limit; within the gap unless it is one step long."""
    sizer, limit = ChunkSizer(WORK, 2048, rate), frontier + ahead
    end = sizer.find_end(frontier, limit, gap_s)
    assert frontier < end <= limit
    assert end == limit or end % 64 == 0
    assert end - frontier <= 2048
    if gap_s is not None and end - frontier > 64:
        assert sizer.predict_s(frontier, end - frontier) <= gap_s
    longest = sizer.find_end(frontier, limit, None)
    if end < longest:
        assert sizer.predict_s(frontier, min(longest, end + 64) - frontier) > gap_s, "the longest that fits"


def test_the_same_gap_holds_fewer_tokens_far_into_a_context() -> None:
    """[J7]: attention to 100k positions is part of the price."""
    sizer = ChunkSizer(WORK, 4096, rate_per_s=1e7)
    near, far = (sizer.find_end(at, at + 4096, 0.1) - at for at in (0, 102_400))
    assert near > 4 * far
    assert far % 64 == 0


def test_the_rate_follows_what_was_seen() -> None:
    """[J7]: a device that is four times slower than calibrated gets shorter chunks within a few of them."""
    sizer = ChunkSizer(WORK, 4096, rate_per_s=1e7)
    before = sizer.find_end(0, 4096, 0.1)
    for _ in range(20):
        sizer.note_chunk(0, 1024, WORK.of(0, 1024) / 2.5e6)
    assert abs(sizer.predict_s(0, 1024) - WORK.of(0, 1024) / 2.5e6) < 0.01
    assert sizer.find_end(0, 4096, 0.1) < before / 3
    sizer.note_chunk(0, 0, 1.0)
    sizer.note_chunk(0, 64, 0.0)
    assert abs(sizer.predict_s(0, 1024) - WORK.of(0, 1024) / 2.5e6) < 0.01
