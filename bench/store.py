"""Accounting on the control thread: forks, permits and whole decode cycles of Program, without any device work.

The device here answers at once and computes nothing, so that what remains is the bookkeeping. Times are those of the
thread's own work, whatever else the machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import thread_time

from bench.table import Row
from ninfer.base.ids import Handle, LaneId, TransferId, UnitId
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.device import (
    Completion,
    CopyDone,
    DeviceFacts,
    HostCopy,
    PageCopy,
    RunResult,
    SampleRow,
    SamplesDone,
    StateCopy,
    UnitBatch,
    UnitDone,
)
from ninfer.ports.native import Bound, CaptureRequest, DrawTurn, PointKind, PrefillTurn, Prompt, RunDone
from ninfer.program.program import Program
from ninfer.sim.driver import GREEDY, make_prompt
from ninfer.store.directory import KvDirectory
from ninfer.store.epoch import Epoch
from ninfer.store.extents import HostArena, HostNeed
from ninfer.store.stores import ContextStores

LONG_TOKENS = 200_000
BRANCHES = 500
LANES = 8
RUNS = 200
HOST_EXTENTS = 2000
HOST_PAGE_BYTES = 64 * 1024
HOST_IMAGE_BYTES = 40 * HOST_PAGE_BYTES


class InstantDevice:
    """Every submission is complete at the next poll; each draw gives token 5."""

    def __init__(self, slots: int, pages: int, host_bytes: int = 0) -> None:
        self.host_bytes = host_bytes
        self.facts = DeviceFacts(1000, slots, {Pool.MAIN_KV: pages}, {Pool.MAIN_KV: 1}, 1)
        self._done: list[Completion] = []
        self._submitted = 0

    def submit_copy(self, copies: Sequence[PageCopy | StateCopy]) -> TransferId:  # noqa: ARG002
        """Nothing is copied."""
        transfer = TransferId(self._next())
        self._done.append(CopyDone(transfer))
        return transfer

    def submit_host_copy(self, copies: Sequence[HostCopy]) -> TransferId:  # noqa: ARG002
        """Nothing is copied."""
        transfer = TransferId(self._next())
        self._done.append(CopyDone(transfer))
        return transfer

    def submit_unit(self, batch: UnitBatch, after: Sequence[TransferId] = ()) -> UnitId:  # noqa: ARG002
        """Nothing is computed."""
        unit = UnitId(self._next())
        self._done.append(UnitDone(unit))
        return unit

    def submit_sampling(self, rows: Sequence[SampleRow]) -> UnitId:
        """One token a row."""
        unit = UnitId(self._next())
        self._done.append(SamplesDone(unit, tuple(RunResult(row.lane, (5,)) for row in rows)))
        return unit

    def poll(self) -> list[Completion]:
        """All of it."""
        done, self._done = self._done, []
        return done

    def wait(self, timeout_s: float) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """There is nothing to give back."""

    def _next(self) -> int:
        self._submitted += 1
        return self._submitted


def measure() -> list[Row]:
    """All rows; medians in microseconds."""
    permit_us = _median_us(_settle_one_unit())
    fork_us = _median_fork_us()
    cycle_us = _median_us(_decode_cycle())
    program, prompt, end = _crowded_program()
    quote_us = _median_us(lambda: program.quote_source(prompt, end, takes_over=False, first_unit_tokens=512), runs=RUNS)
    list_us = _median_us(lambda: program.list_delete_actions(Pool.MAIN_KV), runs=10)
    demote_us = _median_us(lambda: program.list_demote_actions(Pool.MAIN_KV), runs=10)
    what_if_us = _median_us(_host_what_if())
    return [
        Row("reserve, take and settle one page", permit_us, "us", "<= 20", permit_us <= 20),
        Row("fork of a 200k-token history", fork_us, "us", "<= 1,000", fork_us <= 1000),
        Row(f"host what-if, {HOST_EXTENTS} extents", what_if_us, "us", "<= 2,000", what_if_us <= 2000),
        Row(f"decode cycle of Program, {LANES} lanes", cycle_us, "us", "<= 300", cycle_us <= 300),
        Row("quote of a 100k-token source, verified exactly", quote_us, "us"),
        Row(f"delete actions over {2 * BRANCHES} points", list_us, "us", "<= 5,000", list_us <= 5000),
        Row(f"demote actions over {2 * BRANCHES} points", demote_us, "us", "<= 5,000", demote_us <= 5000),
    ]


def _median_us(act: Callable[[], object], runs: int = RUNS) -> float:
    times = []
    for _ in range(runs):
        start = thread_time()
        act()
        times.append(thread_time() - start)
    return median(times) * 1e6


def _settle_one_unit() -> Callable[[], None]:
    stores = ContextStores(InstantDevice(4, 1000).facts)
    directory = stores.directories.open()
    directory.open_writer(0)

    def settle() -> None:
        tokens = 64 * (directory.page_count(Pool.MAIN_KV) + 1)
        permit = stores.reservations.reserve(Amounts(main_kv=1))
        assert isinstance(permit, Handle)
        directory.grow(tokens, {Pool.MAIN_KV: stores.reservations.take_pages(permit, Pool.MAIN_KV, 1)})
        stores.reservations.forfeit(permit)
        directory.commit(tokens)

    return settle


def _median_fork_us() -> float:
    stores = ContextStores(InstantDevice(4, 4000).facts)
    parent = stores.directories.open()
    parent.open_writer(0)
    pages = parent.need_pages(LONG_TOKENS)[Pool.MAIN_KV]
    permit = stores.reservations.reserve(Amounts(main_kv=pages))
    assert isinstance(permit, Handle)
    parent.grow(LONG_TOKENS, {Pool.MAIN_KV: stores.reservations.take_pages(permit, Pool.MAIN_KV, pages)})
    parent.commit(LONG_TOKENS)
    times = []
    for _ in range(RUNS):
        start = thread_time()
        child: KvDirectory = stores.directories.fork(parent, LONG_TOKENS, {})
        times.append(thread_time() - start)
        child.close_writer()
        stores.directories.close_unheld(child)
    return median(times) * 1e6


def _host_what_if() -> Callable[[], None]:
    """One StateImage and 64 pages into a full, riddled arena, after the release of enough victims."""
    arena = HostArena(HOST_EXTENTS * HOST_PAGE_BYTES, Epoch())
    extents = arena.reserve([HostNeed(HOST_PAGE_BYTES, HOST_EXTENTS)])
    assert isinstance(extents, list)
    for extent in extents[1:1800:3]:
        arena.drop(extent)
    halves = arena.reserve([HostNeed(HOST_PAGE_BYTES // 2, 1200)])
    assert isinstance(halves, list)
    assert len(arena) >= HOST_EXTENTS
    victims = [*extents[0:300:3], *extents[1850:1920]]
    needs = [HostNeed(HOST_IMAGE_BYTES), HostNeed(HOST_PAGE_BYTES, 64)]

    def ask() -> None:
        assert arena.find_unplaced(needs, victims) is None

    assert arena.find_unplaced(needs) is not None
    return ask


def _decode_cycle() -> Callable[[], None]:
    program = Program(InstantDevice(LANES, 4000))
    sequences = [_prefilled(program, make_prompt([lane] * 100), lane=lane) for lane in range(LANES)]

    def cycle(*, decode: bool = True) -> None:
        for sequence in sequences:
            assert not decode or program.reserve_decode(sequence) is None
        program.submit([DrawTurn(sequence, decode, GREEDY, 0.0) for sequence in sequences], None)
        for event in program.poll():
            assert isinstance(event, RunDone)
            program.commit_run(event.sequence, 1)

    cycle(decode=False)
    return cycle


def _prefilled(
    program: Program, prompt: Prompt, point: Handle | None = None, *, lane: int = 0, capture_at: int | None = None
) -> Handle:
    quote = program.quote_source(prompt, point, takes_over=False, first_unit_tokens=prompt.prompt_tokens)
    assert quote is not None
    bound = program.bind(quote, prompt, LaneId(lane))
    assert isinstance(bound, Bound)
    program.poll()
    captures: tuple[CaptureRequest, ...] = ()
    if capture_at is not None:
        captures = (CaptureRequest(capture_at, PointKind.INPUT_POINT),)
        assert program.reserve_capture(bound.sequence, captures[0], None) is None
    program.submit([], PrefillTurn(bound.sequence, prompt.prompt_tokens - bound.frontier, captures))
    program.poll()
    return bound.sequence


def _crowded_program() -> tuple[Program, Prompt, Handle]:
    """A 100k-token history with BRANCHES branches of two points each."""
    device = InstantDevice(2 * BRANCHES + 10, 8000, host_bytes=1 << 20)
    program = Program(device, device)
    shared = [index % 997 for index in range(100_000)]
    root = program.freeze_end(_prefilled(program, make_prompt(shared)))
    prompt = make_prompt(shared)
    for branch in range(BRANCHES):
        prompt = make_prompt([*shared, *[branch] * 200], [100_100])
        end = program.freeze_end(_prefilled(program, prompt, root, capture_at=100_100))
    return program, prompt, end
