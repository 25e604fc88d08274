"""Random histories on the CPU device against one plain forward pass over each history's tokens, in float64.

Sequences grow by chunks and by decode batches, states are saved at cuts, branches read a saved state and copy a
partial tail page, saved states and their pages go to the host and come back elsewhere. Whatever the order, each
history's tail hidden row is that of its tokens alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from cpu_driver import Sequence_, collect, decode, open_fixture
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor

from ninfer.base.ids import PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.device.cpu import CpuDevice
from ninfer.ports.device import (
    CopyDone,
    PageCopy,
    PageFromHost,
    PageToHost,
    StateCopy,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitDone,
    UnitKind,
)

LANES, BERTHS, MAX_TOKENS, BOUND = 4, 3, 200, 1e-8
chunks = st.lists(st.integers(5, 250), min_size=1, max_size=90)


@cache
def oracle_device() -> CpuDevice:
    return open_fixture("dense_text", "float64", lanes=1)


@cache
def plain_tail(tokens: tuple[int, ...]) -> Tensor:
    """Tail hidden row after `tokens`, computed at once from the empty state."""
    device = oracle_device()
    sequence = Sequence_(device, 0, 1, [1, 2, 3, 4])
    sequence.prefill(tokens)
    return device.arena.states.tail[1].clone()


class Histories(RuleBasedStateMachine):
    """Lanes hold sequences; points are saved states with the pages below them."""

    @initialize()
    def open(self) -> None:
        self.device = open_fixture("dense_text", "float64", lanes=LANES, device_state_slots=4, host_bytes=BERTHS << 21)
        self.device.arena.images.fill_(255)
        self.device.arena.kv[Pool.MAIN_KV].fill_(float("nan"))
        self.free_pages = list(range(1, self.device.facts.pages[Pool.MAIN_KV] + 1))
        self.sequences: dict[int, Sequence_] = {}
        self.tokens: dict[int, list[int]] = {}
        self.points: list[tuple[int, list[int], list[int], Tensor]] = []
        """(slot, tokens, pages, bits of the image)"""
        self.berths: dict[int, list[int]] = {}
        """Tokens of the histories kept on the host; a berth is a StateImage and its pages."""

    def take_pages(self, count: int, data: Any) -> list[int]:
        pages = []
        for _ in range(count):
            pages.append(self.free_pages.pop(data.draw(st.integers(0, len(self.free_pages) - 1))))
        return pages

    @precondition(lambda self: len(self.sequences) < LANES)
    @rule(tokens=chunks, data=st.data())
    def start(self, tokens: list[int], data: Any) -> None:
        lane = min(set(range(LANES)) - set(self.sequences))
        self.sequences[lane] = Sequence_(self.device, lane, lane + 1, self.take_pages(4, data))
        self.tokens[lane] = []
        self.extend(lane, tokens, data)

    @precondition(lambda self: self.sequences)
    @rule(tokens=chunks, data=st.data())
    def prefill(self, tokens: list[int], data: Any) -> None:
        self.extend(data.draw(st.sampled_from(sorted(self.sequences))), tokens, data)

    def extend(self, lane: int, tokens: list[int], data: Any, **row: Any) -> None:
        """A chunk with a cut somewhere, saved when a slot is free."""
        sequence = self.sequences[lane]
        tokens = tokens[: MAX_TOKENS - sequence.frontier]
        if not tokens:
            return
        offset = data.draw(st.integers(1, len(tokens)))
        slot = self.free_point_slot()
        sequence.prefill(tokens, cuts=((offset, slot),), **row)
        before = sequence.frontier - len(tokens)
        self.tokens[lane] += tokens
        if slot is not None:
            bits = self.device.arena.images[slot].clone()
            pages = list(sequence.pages)
            self.points.append((slot, self.tokens[lane][: before + offset], pages, bits))

    def free_point_slot(self) -> int | None:
        free = set(range(LANES + 1, self.device.facts.slots + 1)) - {slot for slot, *_ in self.points}
        return min(free) if free else None

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), token=st.integers(5, 250), steps=st.integers(1, 4))
    def step(self, data: Any, token: int, steps: int) -> None:
        lanes = data.draw(st.permutations(sorted(self.sequences)))
        lanes = lanes[: data.draw(st.integers(1, len(lanes)))]
        for number in range(steps):
            running = [lane for lane in lanes if self.sequences[lane].frontier < MAX_TOKENS]
            if running:
                fed = [(token + 7 * lane + number) % 250 for lane in running]
                decode([self.sequences[lane] for lane in running], fed)
                for lane, fed_token in zip(running, fed, strict=True):
                    self.tokens[lane].append(fed_token)

    @precondition(lambda self: self.points and len(self.sequences) < LANES)
    @rule(data=st.data(), tokens=chunks, by_copy=st.booleans())
    def branch(self, data: Any, tokens: list[int], by_copy: bool) -> None:
        """Full pages are shared, the partial tail is copied, the state is read from the point's slot or copied."""
        slot, known, pages, _ = self.points[data.draw(st.integers(0, len(self.points) - 1))]
        if len(known) >= MAX_TOKENS:
            return
        lane = min(set(range(LANES)) - set(self.sequences))
        full, tail = len(known) // 64, len(known) % 64
        own = pages[:full] + self.take_pages(4 - full, data)
        if tail:
            self.device.submit_copy([PageCopy(Pool.MAIN_KV, PageId(pages[full]), PageId(own[full]), tail)])
        if by_copy:
            self.device.submit_copy([StateCopy(SlotId(slot), SlotId(lane + 1))])
        collect(self.device, bool(tail) + by_copy)
        sequence = self.sequences[lane] = Sequence_(self.device, lane, lane + 1, own)
        sequence.frontier, sequence.started = len(known), True
        self.tokens[lane] = list(known)
        self.extend(lane, tokens, data, **({} if by_copy else {"read_slot": slot}))

    @precondition(lambda self: self.points)
    @rule(data=st.data(), berth=st.integers(0, BERTHS - 1))
    def save(self, data: Any, berth: int) -> None:
        """A point goes to the host, over whatever the berth held."""
        slot, tokens, pages, _ = self.points[data.draw(st.integers(0, len(self.points) - 1))]
        spots = self.list_spots(berth, len(tokens), pages)
        self.device.submit_host_copy(
            [StateToHost(SlotId(slot), berth << 21), *(PageToHost(Pool.MAIN_KV, page, at, n) for page, at, n in spots)]
        )
        collect(self.device, 1)
        self.berths[berth] = list(tokens)

    @precondition(lambda self: self.berths and len(self.sequences) < LANES)
    @rule(data=st.data(), tokens=chunks)
    def come_back(self, data: Any, tokens: list[int]) -> None:
        """The next chunk is submitted with the restore, into blocks full of something else, and waits for it."""
        berth = data.draw(st.sampled_from(sorted(self.berths)))
        known = self.berths[berth]
        tokens = tokens[: MAX_TOKENS - len(known)]
        if not tokens:
            return
        lane = min(set(range(LANES)) - set(self.sequences))
        sequence = Sequence_(self.device, lane, lane + 1, self.take_pages(4, data))
        sequence.frontier, sequence.started = len(known), True
        spots = self.list_spots(berth, len(known), list(sequence.pages))
        restore = self.device.submit_host_copy(
            [
                StateFromHost(berth << 21, SlotId(lane + 1)),
                *(PageFromHost(Pool.MAIN_KV, at, page, n) for page, at, n in spots),
            ]
        )
        unit = self.device.submit_unit(UnitBatch(UnitKind.PREFILL, (sequence.row(tokens),)), after=(restore,))
        assert collect(self.device, 2) == [CopyDone(restore), UnitDone(unit)]
        sequence.advance(len(tokens))
        self.sequences[lane], self.tokens[lane] = sequence, known + tokens

    def list_spots(self, berth: int, tokens: int, pages: list[int]) -> list[tuple[PageId, int, int]]:
        """Page, host offset and covered tokens of a history's pages."""
        first = (berth << 21) + self.device.facts.state_bytes
        page_bytes = self.device.facts.page_bytes[Pool.MAIN_KV]
        starts = range(0, tokens, 64)
        return [
            (PageId(page), first + index * page_bytes, min(64, tokens - start))
            for index, (start, page) in enumerate(zip(starts, pages, strict=False))
        ]

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def end(self, data: Any) -> None:
        """Pages stay with the points that may name them; the rest of the machine never runs out."""
        lane = data.draw(st.sampled_from(sorted(self.sequences)))
        sequence = self.sequences.pop(lane)
        named = {page for _, _, pages, _ in self.points for page in pages}
        named |= {page for other in self.sequences.values() for page in other.pages}
        self.free_pages += [page for page in sequence.pages if page not in named]

    @precondition(lambda self: len(self.points) > 1)
    @rule()
    def forget(self) -> None:
        _, _, pages, _ = self.points.pop(0)
        named = {page for _, _, others, _ in self.points for page in others}
        named |= {page for sequence in self.sequences.values() for page in sequence.pages}
        self.free_pages += [page for page in set(pages) if page not in named and page not in self.free_pages]

    @invariant()
    def every_history_is_that_of_its_tokens(self) -> None:
        """[A2] [D10] [V-15]"""
        tail = self.device.arena.states.tail if hasattr(self, "device") else None
        for lane, tokens in getattr(self, "tokens", {}).items():
            if lane in self.sequences and tokens:
                assert tail is not None
                torch.testing.assert_close(tail[lane + 1], plain_tail(tuple(tokens)), rtol=0, atol=BOUND)

    @invariant()
    def saved_states_keep_their_bits(self) -> None:
        """[D7] [V-09] and they are the states of their tokens."""
        for slot, tokens, _, bits in getattr(self, "points", []):
            assert torch.equal(self.device.arena.images[slot], bits)
            tail = self.device.arena.states.tail[slot]
            torch.testing.assert_close(tail, plain_tail(tuple(tokens)), rtol=0, atol=BOUND)


TestHistories = Histories.TestCase
# Each step is a real forward pass, and plain ones beside it: few examples, always the same.
TestHistories.settings = settings(max_examples=8, stateful_step_count=16, deadline=None, derandomize=True)
