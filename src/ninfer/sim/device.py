"""SimDevice: a device without tensors. Pages and slots hold symbolic contents, and every read is compared (decision 1).

It knows what a real device would be given: rows, page tables, slots, copies. Work runs when it lands, in the order of
submission, and reads its inputs only then, so that a view changed, a slot reused or a page freed too early is seen.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from ninfer.base.errors import DeviceFailure
from ninfer.base.frontier import backend_frontier
from ninfer.base.ids import LaneId, PageId, SlotId, TransferId, UnitId
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.ports.device import (
    Completion,
    CopyDone,
    CopyFailed,
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
    UnitKind,
    UnitRow,
)
from ninfer.ports.sampling import TokenLogprobs

from .chain import Link, draw_token, extend_digest, finish_digest
from .host import SimHost
from .script import MAX_RUN_TOKENS, Draw, Script

SIM_PAGE_BYTES = 64 * 1024
SIM_STATE_BYTES = 1024 * 1024
_ALL_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SimFaults:
    """What goes wrong, from a seed. `delay_polls`: work lands up to that many polls late, `delay_copy_polls`: copies.

    `fail_submission`, `fail_copy`, `fail_landing`: the n-th submission, copy or completion (from 0) ends in
    DeviceFailure; None: none does.
    `host_failures`: share of host transfers that end in CopyFailed.
    """

    seed: int = 0
    delay_polls: int = 0
    delay_copy_polls: int | None = None
    """None: as late as the rest."""
    fail_submission: int | None = None
    fail_copy: int | None = None
    fail_landing: int | None = None
    host_failures: float = 0.0


SeededUniforms = Callable[[int, int], float]
"""(seed of a request, logical position) -> the uniform number of its draw."""


_Copies = tuple[PageCopy | StateCopy | HostCopy, ...]
_Job = UnitBatch | tuple[SampleRow, ...] | _Copies


@dataclass(slots=True)
class _Work:
    """Something submitted: how many polls it still waits, and after which transfers."""

    id: int
    polls_left: int
    job: _Job
    after: frozenset[int] = frozenset()
    seen: tuple[bytes, ...] = field(default_factory=tuple)
    fails: bool = False


class SimDevice:
    """Implements `ports.device.Device`, and `HostTier` where `host_bytes` is not 0.

    `check_every`: every token of a row is compared every so many units of its lane, and whenever the lane goes on
    from a state that it did not write itself; in between, prefill compares each page's end, and decode the tail.
    `longest_run`: a draw deals 1 to that many tokens, how many is a function of the history; each token follows the
    rule, so that the cuts change nothing in what is said. `uniforms`: for the tokens of a run after the first.
    """

    def __init__(
        self,
        *,
        slots: int,
        pages: dict[Pool, int],
        vocab_tokens: int = 1000,
        script: Script | None = None,
        faults: SimFaults | None = None,
        check_every: int = 8,
        longest_run: int = 1,
        uniforms: SeededUniforms | None = None,
        host_bytes: int = 0,
        run_ahead_slots: int = 0,
        feeds_draws: bool = False,
    ) -> None:
        assert 1 <= longest_run <= MAX_RUN_TOKENS
        self.facts = DeviceFacts(
            vocab_tokens=vocab_tokens,
            slots=slots,
            pages=dict(pages),
            page_bytes=dict.fromkeys(pages, SIM_PAGE_BYTES),
            state_bytes=SIM_STATE_BYTES,
            run_ahead_slots=run_ahead_slots,
            follows_copies=True,
            feeds_draws=feeds_draws,
        )
        self._slots: list[Link | None] = [None] * (1 + slots + run_ahead_slots)
        self._pages: dict[Pool, list[list[Link | None]]] = {
            pool: [[None] * PAGE_TOKENS for _ in range(count + 1)] for pool, count in pages.items()
        }
        self.host_bytes = host_bytes
        self._host: SimHost[Link | tuple[Link | None, ...]] = SimHost(host_bytes)
        self._script = script
        self._faults = faults or SimFaults()
        self._random = random.Random(self._faults.seed)
        self._host_random = random.Random(self._faults.seed + 1)
        self._check_every = check_every
        self._longest_run = longest_run
        self._uniforms = uniforms
        self._landings = 0
        self._drawn: tuple[UnitId, dict[LaneId, int]] = UnitId(-1), {}
        self._units_of_lane: dict[LaneId, int] = {}
        self._last_state: dict[LaneId, Link | None] = {}
        self._queue: deque[_Work] = deque()
        self._copies: deque[_Work] = deque()
        self._lost: set[int] = set()
        """Transfers that failed: a unit that needs one computes nothing."""
        self._submissions = 0
        self._copies_submitted = 0
        self.late = 0
        """Completions that did not come at the first poll."""
        self.overtaking = 0
        """Completions before that of something submitted earlier."""
        self.fed_tokens = 0
        """Tokens fed in all units so far: what really was computed."""

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:
        """Copies land on their own, in any order beside the units."""
        work = self._copy_work(tuple(copies))
        self._copies.append(work)
        return TransferId(work.id)

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:
        """Targets hold nothing from now until the transfer lands."""
        assert copies
        work = self._copy_work(tuple(copies))
        work.fails = self._host_random.random() < self._faults.host_failures
        for copy in copies:
            match copy:
                case PageToHost(pool, _, target, _):
                    self._host.tear(target, self.facts.page_bytes[pool])
                case StateToHost(_, target):
                    self._host.tear(target, self.facts.state_bytes)
                case PageFromHost(pool, _, page, _):
                    self._pages[pool][self._page(pool, page)] = [None] * PAGE_TOKENS
                case StateFromHost(_, slot):
                    self._slots[self._slot(slot)] = None
                case _:
                    assert_never(copy)
        self._copies.append(work)
        return TransferId(work.id)

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:
        """Units and draws land in order of submission."""
        _check_batch(batch)
        work = self._work(batch)
        work.after = frozenset(after)
        work.seen = _views_of(batch)
        self._queue.append(work)
        return UnitId(work.id)

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """Draws, after every unit before."""
        assert rows
        work = self._work(tuple(rows))
        self._queue.append(work)
        return UnitId(work.id)

    def poll(self) -> list[Completion]:
        """Land what is due."""
        done: list[Completion] = []
        for work in list(self._copies):
            work.polls_left -= 1
            if work.polls_left < 0:
                self._copies.remove(work)
                done.append(self._land(work))
        waiting = {work.id for work in self._copies}
        if self._queue:
            self._queue[0].polls_left -= 1
        while self._queue and self._queue[0].polls_left < 0 and waiting.isdisjoint(self._queue[0].after):
            done.append(self._land(self._queue.popleft()))
            if self._faults.delay_polls == 0 and self._queue:
                self._queue[0].polls_left -= 1
        return done

    def wait(self, timeout_s: float) -> None:
        """Never blocks: time passes by polls."""

    def close(self) -> None:
        """Nothing to give back."""

    def _copy_work(self, job: _Copies) -> _Work:
        number = self._copies_submitted
        self._copies_submitted += 1
        work = self._work(job, self._faults.delay_copy_polls)
        if number == self._faults.fail_copy:
            raise DeviceFailure(f"copy {number} failed")
        return work

    def _work(self, job: _Job, delay_polls: int | None = None) -> _Work:
        number = self._submissions
        self._submissions += 1
        if number == self._faults.fail_submission:
            raise DeviceFailure(f"submission {number} failed")
        most = self._faults.delay_polls if delay_polls is None else delay_polls
        late = self._random.randint(0, most) if most else 0
        self.late += late > 0
        return _Work(number, late, job)

    def _land(self, work: _Work) -> Completion:
        number = self._landings
        self._landings += 1
        older = self._queue[0].id < work.id if self._queue else False
        self.overtaking += older or (bool(self._copies) and self._copies[0].id < work.id)
        if number == self._faults.fail_landing:
            raise DeviceFailure(f"completion {number} failed")
        if isinstance(work.job, UnitBatch):
            assert _views_of(work.job) == work.seen, "a view of a unit in flight was written"
            if not self._lost.isdisjoint(work.after):
                self._clear_targets(work.job)
                return UnitDone(UnitId(work.id))
            for row in self._fill_in(work.job):
                self._run_row(row, by_page=work.job.kind in (UnitKind.PREFILL, UnitKind.REPLAY))
            return UnitDone(UnitId(work.id))
        if isinstance(work.job[0], SampleRow):
            runs = tuple(self._draw(row) for row in work.job if isinstance(row, SampleRow))
            self._drawn = UnitId(work.id), {run.lane: run.token_ids[0] for run in runs}
            return SamplesDone(UnitId(work.id), runs)
        if work.fails:
            self._lost.add(work.id)
            return CopyFailed(TransferId(work.id))
        for copy in work.job:
            assert not isinstance(copy, SampleRow)
            if isinstance(copy, PageCopy | StateCopy):
                self._copy(copy)
            else:
                self._copy_host(copy)
        return CopyDone(TransferId(work.id))

    def _clear_targets(self, batch: UnitBatch) -> None:
        """What the unit would have written holds nothing."""
        for row in batch.rows:
            for slot in (row.write_slot, *(cut.slot for cut in row.cuts if cut.slot is not None)):
                self._slots[self._slot(slot)] = None

    def _fill_in(self, batch: UnitBatch) -> tuple[UnitRow, ...]:
        """The rows with the tokens drawn on the device."""
        if batch.drawn_by is None:
            return batch.rows
        unit, drawn = self._drawn
        assert unit == batch.drawn_by, "a unit feeds another draw than the one before it"
        return tuple(replace(row, token_ids=memoryview(array("i", [drawn[row.lane]]))) for row in batch.rows)

    def _copy_host(self, copy: HostCopy) -> None:
        match copy:
            case PageToHost(pool, page, target, tokens):
                kept = self._pages[pool][self._page(pool, page)][:tokens]
                assert None not in kept, f"{pool.value} page {page} is saved before it is complete"
                self._host.write(target, self.facts.page_bytes[pool], tuple(kept))
            case PageFromHost(pool, source, page, tokens):
                content = self._host.read(source, self.facts.page_bytes[pool])
                assert isinstance(content, tuple), f"host block at {source} is no page"
                assert len(content) >= tokens, f"host block at {source} has {len(content)} of {tokens} tokens"
                self._pages[pool][self._page(pool, page)] = [*content[:tokens], *[None] * (PAGE_TOKENS - tokens)]
            case StateToHost(slot, target):
                state = self._slots[self._slot(slot)]
                assert state is not None, f"slot {slot} is saved but holds no state"
                self._host.write(target, self.facts.state_bytes, state)
            case StateFromHost(source, slot):
                image = self._host.read(source, self.facts.state_bytes)
                assert isinstance(image, Link), f"host block at {source} is no StateImage"
                self._slots[self._slot(slot)] = image
            case _:
                assert_never(copy)

    def _copy(self, copy: PageCopy | StateCopy) -> None:
        if isinstance(copy, StateCopy):
            self._slots[self._slot(copy.target)] = self._slots[self._slot(copy.source)]
            return
        pages = self._pages[copy.pool]
        kept = pages[self._page(copy.pool, copy.source)][: copy.tokens]
        pages[self._page(copy.pool, copy.target)] = kept + [None] * (PAGE_TOKENS - copy.tokens)

    def _run_row(self, row: UnitRow, *, by_page: bool) -> None:
        state = None if row.read_slot is None else self._slots[self._slot(row.read_slot)]
        length = 0 if state is None else state.length
        assert row.read_slot is None or state is not None, f"slot {row.read_slot} holds no state"
        assert length == row.start, f"lane {row.lane}: the state is of {length} tokens, the row starts at {row.start}"
        units = self._units_of_lane.get(row.lane, 0)
        self._units_of_lane[row.lane] = units + 1
        is_new = state is not self._last_state.get(row.lane)
        self._check_pages(row, state, by_page=by_page, whole=is_new or units % self._check_every == 0)
        count = len(row.token_ids)
        axes = (row.positions[:count], row.positions[count : 2 * count], row.positions[2 * count :])
        links: list[Link | None] = []
        for token, *triple in zip(row.token_ids, *axes, strict=True):
            state = Link(state, token, (triple[0], triple[1], triple[2]))
            links.append(state)
        for cut in row.cuts:
            if cut.slot is not None:
                self._slots[self._slot(cut.slot)] = links[cut.offset - 1]
        for pool, table in row.pages.items():
            self._write_pages(pool, table, row.start, links)
        self._slots[self._slot(row.write_slot)] = state
        self._last_state[row.lane] = state
        self.fed_tokens += count

    def _check_pages(self, row: UnitRow, state: Link | None, *, by_page: bool, whole: bool) -> None:
        """The tail always; the end of each page, or every token, when asked."""
        history = state.list_links() if whole and state is not None else []
        for pool, table in row.pages.items():
            fed = backend_frontier(pool, row.start)
            stop = backend_frontier(pool, row.start + len(row.token_ids))
            assert len(table) * PAGE_TOKENS >= stop, f"lane {row.lane}: too few pages of {pool.value}"
            assert not whole or len(set(table)) == len(table), f"lane {row.lane}: a page stands twice in a table"
            lag = row.start - fed
            pages = self._pages[pool]
            link = state
            while link is not None and link.length > lag:
                index = link.length - 1 - lag
                held = pages[self._page(pool, PageId(table[index // PAGE_TOKENS]))][index % PAGE_TOKENS]
                assert held is link, f"lane {row.lane}: {pool.value} at {index} is {_say(held)}, not {_say(link)}"
                link = link.before if by_page else None
            for first in range(0, fed if whole else 0, PAGE_TOKENS):
                wanted = history[first + lag : first + lag + PAGE_TOKENS]
                kept = pages[table[first // PAGE_TOKENS]][: len(wanted)]
                if kept != wanted:  # links are equal only to themselves
                    at = next(at for at, link in enumerate(wanted) if kept[at] is not link)
                    words = f"{pool.value} at {first + at} is {_say(kept[at])}, not {_say(wanted[at])}"
                    raise AssertionError(f"lane {row.lane}: {words}")

    def _write_pages(self, pool: Pool, table: memoryview, fed: int, links: list[Link | None]) -> None:
        stop = backend_frontier(pool, fed + len(links))
        start = backend_frontier(pool, fed)
        links = links[len(links) - (stop - start) :]
        at = start
        while at < stop:
            page = self._pages[pool][self._page(pool, PageId(table[at // PAGE_TOKENS]))]
            end = min(stop, (at // PAGE_TOKENS + 1) * PAGE_TOKENS)
            page[at % PAGE_TOKENS : at % PAGE_TOKENS + end - at] = links[at - start : end - start]
            at = end

    def _draw(self, row: SampleRow) -> RunResult:
        state = self._slots[self._slot(row.slot)]
        assert state is not None, f"slot {row.slot} holds no hidden row"
        assert state.length == row.position, f"lane {row.lane}: hidden row of {state.length}, drawn for {row.position}"
        vocab_tokens = self.facts.vocab_tokens
        ruled = draw_token(state.digest, vocab_tokens, 0.0 if row.params.is_greedy else row.uniform)
        if row.mask is not None:
            ruled = _next_allowed(ruled, row.mask, vocab_tokens)
        run: tuple[int, ...] = (ruled,)
        if self._script is not None:
            run = self._script.next_run(Draw(row.lane, row.position, state.history(), ruled))
            assert 1 <= len(run) <= MAX_RUN_TOKENS
        elif self._longest_run > 1 and row.mask is None:
            run = self._extend_run(row, state, ruled)
        logprobs = None
        if row.logprobs is not None:
            logprobs = tuple(_symbolic_logprobs(token, row.logprobs, vocab_tokens) for token in run)
        return RunResult(row.lane, run, logprobs)

    def _extend_run(self, row: SampleRow, state: Link, first: int) -> tuple[int, ...]:
        """What the rule says after `first` as well, as if each token had been fed before the next is drawn."""
        run = [first]
        digest, axis = state.digest, max(state.position) + 1
        for offset in range(1, finish_digest(~digest & _ALL_BITS) % self._longest_run + 1):
            digest = extend_digest(digest, run[-1], (axis, axis, axis))
            axis += 1
            chance = 0.0
            if not row.params.is_greedy:
                assert self._uniforms is not None, "a sampled run needs the uniform numbers of its later tokens"
                chance = self._uniforms(row.params.seed, row.position + offset)
            run.append(draw_token(digest, self.facts.vocab_tokens, chance))
        return tuple(run)

    def _slot(self, slot: SlotId | None) -> int:
        assert slot is not None
        assert 1 <= slot < len(self._slots), f"there is no slot {slot}"
        return slot

    def _page(self, pool: Pool, page: PageId) -> int:
        assert 1 <= page <= self.facts.pages[pool], f"{pool.value} has no page {page}"
        return page


def _check_batch(batch: UnitBatch) -> None:
    writes = [row.write_slot for row in batch.rows] + [
        cut.slot for row in batch.rows for cut in row.cuts if cut.slot is not None
    ]
    assert len(set(writes)) == len(writes), "two rows write one slot"
    assert len({row.lane for row in batch.rows}) == len(batch.rows), "a lane stands twice in a unit"
    for row in batch.rows:
        count = len(row.token_ids)
        assert count > 0
        assert len(row.positions) == 3 * count
        assert all(0 < cut.offset <= count for cut in row.cuts)
        assert batch.kind is not UnitKind.DECODE or count == 1, "a DECODE row feeds one token"
    assert batch.kind in (UnitKind.DECODE, UnitKind.VERIFY) or len(batch.rows) == 1, "a prefill unit has one row"


def _views_of(batch: UnitBatch) -> tuple[bytes, ...]:
    views = [view for row in batch.rows for view in (row.token_ids, row.positions, *row.pages.values())]
    return tuple(view.tobytes() for view in views)


def _next_allowed(token: int, mask: bytes, vocab_tokens: int) -> int:
    """The first allowed id at or after `token`, round the end."""
    for step in range(vocab_tokens):
        candidate = (token + step) % vocab_tokens
        if mask[candidate // 8] >> (candidate % 8) & 1:
            return candidate
    raise AssertionError("the mask allows nothing")


def _symbolic_logprobs(token: int, alternatives: int, vocab_tokens: int) -> TokenLogprobs:
    """A plausible, falling sequence that starts with the chosen token."""
    top = tuple(((token + rank) % vocab_tokens, -0.25 - rank) for rank in range(min(alternatives, vocab_tokens)))
    return TokenLogprobs(chosen=-0.25, top=top)


def _say(link: Link | None) -> str:
    return "empty" if link is None else f"token {link.token} after {link.length - 1}"
