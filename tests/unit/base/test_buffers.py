"""IntBuffer behaves like a list, and its views survive growth."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ninfer.base.buffers import IntBuffer

INT32 = st.integers(-(2**31), 2**31 - 1)
SMALL = st.lists(st.integers(0, 2), max_size=40)


class BufferMachine(RuleBasedStateMachine):
    """Against a list; every view taken since the last truncation must still show what it showed."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = IntBuffer()
        self.model: list[int] = []
        self.views: list[tuple[memoryview, list[int]]] = []

    @rule(value=INT32)
    def append(self, value: int) -> None:
        self.buffer.append(value)
        self.model.append(value)

    @rule(values=st.lists(INT32, max_size=200), as_array=st.booleans())
    def extend(self, values: list[int], as_array: bool) -> None:
        self.buffer.extend(array("i", values) if as_array else values)
        self.model.extend(values)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        count = int(len(self.model) * share)
        self.buffer.truncate(count)
        del self.model[count:]
        self.views.clear()

    @rule()
    def look(self) -> None:
        self.views.append((self.buffer.view(), list(self.model)))

    @invariant()
    def equal_to_the_list(self) -> None:
        assert list(self.buffer) == self.model
        assert len(self.buffer) == len(self.model)
        if self.model:
            assert (self.buffer[0], self.buffer[-1]) == (self.model[0], self.model[-1])
        assert all(list(view) == seen for view, seen in self.views)


TestBufferMachine = BufferMachine.TestCase


@given(SMALL, SMALL)
def test_common_prefix_and_starts_with(left: list[int], right: list[int]) -> None:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    assert IntBuffer(left).common_prefix(IntBuffer(right)) == count
    for length in range(len(right) + 2):
        expected = length <= min(len(left), len(right)) and left[:length] == right[:length]
        assert IntBuffer(left).starts_with(IntBuffer(right), length) is expected


@given(SMALL)
def test_bytes_round_trip(values: list[int]) -> None:
    assert list(IntBuffer(IntBuffer(values).to_bytes())) == values
