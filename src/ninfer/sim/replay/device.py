"""The device of a replay: no tensors and no model; a page is a digest, and every read of page or state is compared.

Lighter than `sim/device.py`, which keeps an object a token: here a full page is one number. Replies come from the
trace. Work lands in order of submission, when the clock has passed what the costs say; units on one stream, copies on
another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import numpy as np

from ninfer.base.clock import Clock
from ninfer.base.ids import SlotId, TransferId, UnitId
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.ports.device import (
    Completion,
    CopyDone,
    DeviceFacts,
    HostCopy,
    PageCopy,
    PageFromHost,
    PageToHost,
    RunResult,
    SampleRow,
    SamplesDone,
    StateCopy,
    StateFromHost,
    StateToHost,
    UnitBatch,
    UnitDone,
    UnitRow,
)
from ninfer.sim.host import SimHost

from .contents import PAGE_BYTES, TOKEN_BYTES, Chain, Image, PageContent, PageContents, digest_page

Speaker = Callable[[int, int], tuple[int, ...]]
"""(seed of a request, position) -> the run that it draws there."""


class UnitCosts(Protocol):
    """Seconds that work takes. In nominal order nothing takes time."""

    def unit_s(self, batch: UnitBatch) -> float:
        """One launch."""
        ...

    def copy_s(self, copied_bytes: int) -> float:
        """A copy between host and device."""
        ...


class NoCosts:
    """Everything is done at once."""

    def unit_s(self, batch: UnitBatch) -> float:
        """Nothing."""
        del batch
        return 0.0

    def copy_s(self, copied_bytes: int) -> float:
        """Nothing."""
        del copied_bytes
        return 0.0


_Copies = tuple[PageCopy | StateCopy | HostCopy, ...]
_Job = UnitBatch | tuple[SampleRow, ...] | _Copies


@dataclass(frozen=True, slots=True)
class _Work:
    id: int
    due_s: float
    job: _Job


class ReplayDevice:
    """Implements `ports.device.Device`, and `HostTier` where `host_bytes` is not 0. Main KV alone."""

    def __init__(
        self,
        *,
        slots: int,
        pages: int,
        page_bytes: int,
        state_bytes: int,
        vocab_tokens: int,
        speaker: Speaker,
        clock: Clock,
        costs: UnitCosts,
        host_bytes: int = 0,
    ) -> None:
        self.facts = DeviceFacts(
            vocab_tokens=vocab_tokens,
            slots=slots,
            pages={Pool.MAIN_KV: pages},
            page_bytes={Pool.MAIN_KV: page_bytes},
            state_bytes=state_bytes,
        )
        self.host_bytes = host_bytes
        self._host: SimHost[Image | PageContent] = SimHost(host_bytes)
        self._pages = PageContents(pages)
        self._slots: list[Image | None] = [None] * (slots + 1)
        self._speaker = speaker
        self._clock = clock
        self._costs = costs
        self._units: deque[_Work] = deque()
        self._copies: deque[_Work] = deque()
        self._units_free_s = 0.0
        self._copies_free_s = 0.0
        self._submitted = 0
        self._landed_units = 0
        self.fed_tokens = 0
        """Tokens fed in all units so far: what really was computed."""

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:
        """Copies inside the device follow the units before and cost nothing."""
        return TransferId(self._enter_copies(tuple(copies), 0))

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """Targets hold nothing from now until the transfer lands."""
        moved_bytes = 0
        for copy in copies:
            match copy:
                case PageToHost():
                    moved_bytes += self._tear_host(copy.target, self.facts.page_bytes[copy.pool])
                case StateToHost():
                    moved_bytes += self._tear_host(copy.target, self.facts.state_bytes)
                case PageFromHost():
                    self._pages[copy.target] = None
                    moved_bytes += self.facts.page_bytes[copy.pool]
                case StateFromHost():
                    self._slots[self._slot(copy.target)] = None
                    moved_bytes += self.facts.state_bytes
                case _:
                    assert_never(copy)
        return TransferId(self._enter_copies(tuple(copies), moved_bytes))

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        """Units and draws land in order of submission, after the transfers named."""
        waits = [work.due_s for work in self._copies if work.id in after]
        start_s = max(self._clock.now(), self._units_free_s, *waits, 0.0)
        self._units_free_s = start_s + self._costs.unit_s(batch)
        return UnitId(self._enter_unit(batch))

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """Draws, after every unit before."""
        self._units_free_s = max(self._clock.now(), self._units_free_s)
        return UnitId(self._enter_unit(tuple(rows)))

    def poll(self) -> list[Completion]:
        """Land what is due."""
        now_s, done = self._clock.now(), list[Completion]()
        for queue in (self._copies, self._units):
            while queue and queue[0].due_s <= now_s:
                done.append(self._land(queue.popleft()))
        return done

    @property
    def next_due_s(self) -> float | None:
        """When the next completion comes; None: nothing is under way."""
        return min((queue[0].due_s for queue in (self._copies, self._units) if queue), default=None)

    def wait(self, timeout_s: float) -> None:
        """Never blocks: time is moved by whoever drives the replay."""

    def close(self) -> None:
        """Nothing to give back."""

    def _enter_unit(self, job: _Job) -> int:
        self._submitted += 1
        self._units.append(_Work(self._submitted, self._units_free_s, job))
        return self._submitted

    def _enter_copies(self, job: _Copies, moved_bytes: int) -> int:
        start_s = max(self._clock.now(), self._copies_free_s, self._units_free_s)
        self._copies_free_s = start_s + (self._costs.copy_s(moved_bytes) if moved_bytes else 0.0)
        self._submitted += 1
        self._copies.append(_Work(self._submitted, self._copies_free_s, job))
        return self._submitted

    def _tear_host(self, target: int, block_bytes: int) -> int:
        self._host.tear(target, block_bytes)
        return block_bytes

    def _land(self, work: _Work) -> Completion:
        if isinstance(work.job, UnitBatch):
            self._landed_units += 1
            for row in work.job.rows:
                self._run_row(row)
            return UnitDone(UnitId(work.id))
        if isinstance(work.job[0], SampleRow):
            rows = [row for row in work.job if isinstance(row, SampleRow)]
            return SamplesDone(UnitId(work.id), tuple(self._draw(row) for row in rows))
        for copy in work.job:
            assert not isinstance(copy, SampleRow)
            self._copy(copy)
        return CopyDone(TransferId(work.id))

    def _copy(self, copy: PageCopy | StateCopy | HostCopy) -> None:
        match copy:
            case PageCopy():
                self._pages[copy.target] = self._read_page(copy.source).cut(copy.tokens)
            case StateCopy():
                self._slots[self._slot(copy.target)] = self._read_slot(copy.source)
            case PageToHost():
                kept = self._read_page(copy.source).cut(copy.tokens)
                self._host.write(copy.target, self.facts.page_bytes[copy.pool], kept)
            case PageFromHost():
                content = self._host.read(copy.source, self.facts.page_bytes[copy.pool])
                assert isinstance(content, PageContent), f"host block at {copy.source} is no page"
                self._pages[copy.target] = content.cut(copy.tokens)
            case StateToHost():
                self._host.write(copy.target, self.facts.state_bytes, self._read_slot(copy.source))
            case StateFromHost():
                image = self._host.read(copy.source, self.facts.state_bytes)
                assert isinstance(image, Image), f"host block at {copy.source} is no StateImage"
                self._slots[self._slot(copy.target)] = image
            case _:
                assert_never(copy)

    def _run_row(self, row: UnitRow) -> None:
        """Compare what the row reads, then write what it computes."""
        image = Image(0, Chain(), b"") if row.read_slot is None else self._read_slot(row.read_slot)
        assert image.length == row.start, f"lane {row.lane}: the state is of {image.length} tokens, not {row.start}"
        assert tuple(row.pages) == (Pool.MAIN_KV,), "a replay has Main KV alone"
        count = len(row.token_ids)
        assert row.positions[0] == row.start and len(row.positions) == 3 * count, f"lane {row.lane}: positions"
        table = np.frombuffer(row.pages[Pool.MAIN_KV], np.int32)
        assert len(table) * PAGE_TOKENS >= row.start + count, f"lane {row.lane}: too few pages"
        self._compare(row, image, table)
        chain, behind = self._write(image, table, row.token_ids.tobytes())
        for cut in row.cuts:
            if cut.slot is not None:
                self._slots[self._slot(cut.slot)] = _image_at(row.start + cut.offset, image, chain, behind)
        self._slots[self._slot(row.write_slot)] = _image_at(row.start + count, image, chain, behind)
        self.fed_tokens += count

    def _compare(self, row: UnitRow, image: Image, table: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
        pages, tail_bytes = image.length // PAGE_TOKENS, len(image.tail)
        held, wanted = self._pages.digests_of(table[:pages]), image.chain.view(pages)
        if not np.array_equal(held, wanted):
            index = int(np.argmax(held != wanted))
            raise AssertionError(f"lane {row.lane}: page {table[index]} at index {index} is not of this history")
        if tail_bytes:
            tail = self._read_page(int(table[pages]))
            assert tail.before == image.chain.last(pages), f"lane {row.lane}: the tail page is of another history"
            assert tail.tokens[:tail_bytes] == image.tail, f"lane {row.lane}: the tail page holds other tokens"

    def _write(
        self, image: Image, table: np.ndarray[tuple[int], np.dtype[np.int32]], fed: bytes
    ) -> tuple[Chain, bytes]:
        """Pages from the tail on get their tokens; the chain with the new full pages, and that stretch's tokens."""
        first = image.length // PAGE_TOKENS
        chain, behind = image.chain.fork(first), image.tail + fed
        before, fresh = chain.last(first), list[int]()
        for index, at in enumerate(range(0, len(behind), PAGE_BYTES), first):
            tokens = behind[at : at + PAGE_BYTES]
            digest = digest_page(before, tokens, self._landed_units) if len(tokens) == PAGE_BYTES else 0
            self._pages[int(table[index])] = PageContent(before, tokens, digest)
            if digest:
                fresh.append(digest)
                before = digest
        chain.extend(fresh)
        return chain, behind

    def _draw(self, row: SampleRow) -> RunResult:
        length = self._read_slot(row.slot).length
        assert length == row.position, f"lane {row.lane}: hidden row of {length}, drawn for {row.position}"
        return RunResult(row.lane, self._speaker(row.params.seed, row.position))

    def _read_page(self, page: int) -> PageContent:
        content = self._pages[page]
        assert content is not None, f"page {page} is read and holds nothing"
        return content

    def _read_slot(self, slot: SlotId) -> Image:
        image = self._slots[self._slot(slot)]
        assert image is not None, f"slot {slot} is read and holds no state"
        return image

    def _slot(self, slot: SlotId) -> int:
        assert 1 <= slot <= self.facts.slots, f"there is no slot {slot}"
        return slot


def _image_at(length: int, start: Image, chain: Chain, behind: bytes) -> Image:
    """The state after `length` tokens; `behind`: all tokens from the last full page before `start` on."""
    pages = length // PAGE_TOKENS
    skipped = (pages - start.length // PAGE_TOKENS) * PAGE_BYTES
    return Image(length, chain, behind[skipped : skipped + length % PAGE_TOKENS * TOKEN_BYTES])
