"""A real model: what comes back is what was saved, bit for bit, on every route; and a run that goes on from there gives
the tokens and the logits of the run that never stopped (settled decision 8).

Device memory that nobody owns is overwritten between saving and restoring, so that only the copies can bring it back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ninfer.base.buffers import IntBuffer
from ninfer.base.frontier import pages_for
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.device.host import Transfer
from ninfer.ports.device import HostCopy, RunResult
from ninfer.ports.native import (
    BindDone,
    Bound,
    CaptureRequest,
    DrawTurn,
    HandOver,
    PointKind,
    PrefillDone,
    PrefillTurn,
    Progress,
    Prompt,
    RunDone,
)
from ninfer.ports.sampling import SamplingParams
from ninfer.ports.transactions import TransactionKind
from ninfer.program.program import Program
from ninfer.store.cells import CellState

FIXTURES = Path(__file__).resolve().parents[2] / "data" / "fixtures"
GREEDY = SamplingParams(temperature=0.0)
PROMPT = [(7 * index + index * index) % 200 + 20 for index in range(150)]
POINT, STOP, STEPS = 120, 11, 20
"""An input point, decode steps before a run stops, and steps in all."""
MAIN = Pool.MAIN_KV


class HeldLink:
    """The device's way to the host: transfers wait for the test, then land layer group by layer group."""

    def __init__(self, device: CpuDevice) -> None:
        self._device, self._link = device, device._link
        self._go = threading.Event()
        device._link = self  # type: ignore[assignment]

    def carry(self, copies: Sequence[HostCopy], transfer: Transfer) -> None:
        assert self._go.wait(60)
        self._link.carry(copies, transfer)

    def release(self) -> None:
        self._go.set()
        self._device._link = self._link


class Runs:
    """One device with its Program; every step waits for its end and is recounted."""

    def __init__(self, dtype: str, kv_dtype: str) -> None:
        cache = ContextCacheOptions(device_state_slots=3, host_capacity_bytes=1 << 22)
        options = EngineOptions(
            model_dir=FIXTURES / "dense_text",
            dtype=dtype,
            kv_dtype=kv_dtype,
            max_concurrency=2,
            max_context=512,
            context_cache=cache,
        )  # type: ignore[arg-type]
        self.device = CpuDevice.open(options)
        self.program = Program(self.device, self.device)

    def settle(self, is_over: Callable[[], bool]) -> list[Progress]:
        reported: list[Progress] = []
        while not is_over():
            self.device.wait(10)
            reported += self.program.poll()
            self.program.audit()
        return reported

    def bind(
        self, prompt: Prompt, point: Handle | None, *, takes_over: bool, gives_up: bool = False, waits: bool = True
    ) -> Handle:
        ahead = len(prompt.tokens)
        quote = self.program.quote_source(
            prompt, point, takes_over=takes_over, first_unit_tokens=ahead, gives_up_point=gives_up
        )
        assert quote is not None
        self.hand_over, self.restored = quote.hand_over, quote.restored_bytes
        bound = self.program.bind(quote, prompt, LaneId(0))
        assert isinstance(bound, Bound)
        if waits:
            self.settle(lambda: not self.program.in_flight(bound.sequence))
        return bound.sequence

    def prefill(self, sequence: Handle, tokens: int, capture_at: int | None = None) -> Handle | None:
        assert self.program.reserve_prefill(sequence, tokens) is None
        capture = None if capture_at is None else CaptureRequest(capture_at, PointKind.INPUT_POINT)
        if capture is not None:
            assert self.program.reserve_capture(sequence, capture, None) is None
        self.program.submit([], PrefillTurn(sequence, tokens, () if capture is None else (capture,)))
        done = self.settle(lambda: not self.program.in_flight(sequence))
        (report,) = (event for event in done if isinstance(event, PrefillDone))
        return report.captured[0][1] if report.captured else None

    def decode(self, sequence: Handle, prompt: Prompt, steps: int) -> list[RunResult]:
        """Each with the log-probability of every token of the vocabulary: the logits but for one number."""
        runs = []
        for _ in range(steps):
            feeds = len(prompt.tokens) > self.frontier(sequence)
            if feeds:
                assert self.program.reserve_decode(sequence) is None
            turn = DrawTurn(sequence, feeds, GREEDY, 0.0, logprobs=self.device.facts.vocab_tokens)
            self.program.submit([turn], None)
            done = self.settle(lambda: not self.program.in_flight(sequence))
            (report,) = (event for event in done if isinstance(event, RunDone))
            self.program.commit_run(sequence, 1)
            runs.append(report.run)
        return runs

    def frontier(self, sequence: Handle) -> int:
        return self.program._sequences[sequence].ledger.execution_frontier

    def bits(self, sequence: Handle) -> list[Tensor]:
        """StateImage and KV as bytes, up to the frontier."""
        held = self.program._sequences[sequence]
        assert held.read_slot is not None
        blocks = [self.device.arena.images[held.read_slot]]
        left = self.frontier(sequence)
        for page in held.directory.tables[MAIN].entries.view(0, pages_for(left)):
            blocks.append(self.device.arena.kv[MAIN][page][..., : min(left, PAGE_TOKENS), :])
            if MAIN in self.device.arena.kv_scales:
                blocks.append(self.device.arena.kv_scales[MAIN][page][..., : min(left, PAGE_TOKENS)])
            left -= PAGE_TOKENS
        return [block.contiguous().flatten().view(torch.uint8).clone() for block in blocks]

    def spoil(self) -> None:
        """Overwrite every slot and page that nobody owns: NaN as a number and as a scale."""
        stores = self.program._stores
        for slot in stores.slots.list_cells(CellState.FREE):
            self.device.arena.images[slot] = 255
        for page in stores.pages[MAIN].list_cells(CellState.FREE):
            at = self.device.layout.pools[MAIN].block_offset(page)
            self.device.arena.raw[at : at + self.device.layout.pools[MAIN].block_bytes] = 255

    def demote_all(self) -> None:
        for pool in (Pool.STATE, MAIN):
            while actions := self.program.list_demote_actions(pool):
                assert not isinstance(self.program.demote(actions[0]), Shortfall)
                self.settle(lambda: not self.program.transaction_open)
        assert self.program.occupancy().free[MAIN] == self.program.occupancy().capacity[MAIN]
        self.spoil()

    def reach(self, ends: tuple[int, ...] = (POINT, 150), capture: bool = True) -> tuple[Handle, Prompt, Handle | None]:
        """A fresh run up to the end of the prompt, in chunks with these ends."""
        prompt = Prompt(IntBuffer(PROMPT), len(PROMPT), b"same", (POINT,))
        sequence = self.bind(prompt, None, takes_over=False)
        start, point = 0, None
        for end in ends:
            at = POINT if capture and start < POINT <= end else None
            point = self.prefill(sequence, end - start, at) or point
            start = end
        return sequence, prompt, point

    def stop(self) -> tuple[Handle, Prompt, list[RunResult], list[Tensor]]:
        sequence, prompt, _ = self.reach(capture=False)
        said = self.decode(sequence, prompt, STOP)
        at = self.frontier(sequence)
        again = Prompt(prompt.tokens, at, b"same", (POINT,))
        return sequence, again, said, self.bits(sequence)


FORMATS = [("float32", "auto"), ("bfloat16", "auto"), ("float64", "auto"), ("float32", "int8"), ("bfloat16", "fp8")]


@pytest.fixture(scope="module", params=FORMATS, ids="-".join)
def runs(request: pytest.FixtureRequest) -> Runs:
    return Runs(*request.param)


@pytest.fixture(scope="module")
def whole(runs: Runs) -> list[RunResult]:
    """The run that never stops."""
    sequence, prompt, _ = runs.reach(capture=False)
    said = runs.decode(sequence, prompt, STEPS)
    runs.program.release(sequence)
    return said


def are_equal(left: list[Tensor], right: list[Tensor]) -> bool:
    assert len(left) == len(right) > 1
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


def go_on(runs: Runs, sequence: Handle, prompt: Prompt, said: list[RunResult], whole: list[RunResult]) -> None:
    said = said + runs.decode(sequence, prompt, STEPS - len(said))
    assert said == whole, "tokens or logits differ from the run that never stopped"
    runs.program.release(sequence)


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("takes_over", [True, False])
def test_an_endpoint_is_moved_or_forked(runs: Runs, whole: list[RunResult], takes_over: bool, on_host: bool) -> None:
    """[A2], [F3], [V-15]: the frozen end goes on in place, as a branch with its tail copied, and from the host."""
    sequence, prompt, said, before = runs.stop()
    end = runs.program.freeze_end(sequence)
    if on_host:
        runs.demote_all()
    again = runs.bind(prompt, end, takes_over=takes_over)
    assert (runs.restored > 0) == on_host
    assert runs.hand_over is (HandOver.MOVE if takes_over and not on_host else HandOver.FORK)
    assert are_equal(runs.bits(again), before)
    go_on(runs, again, prompt, said, whole)
    for point in runs.program.list_points():
        runs.program.discard_point(point)


def test_a_snapshot_is_resumed(runs: Runs, whole: list[RunResult]) -> None:
    """[K1], [K2]: in the middle of the output the run leaves the device whole, and goes on where it stood."""
    sequence, prompt, said, before = runs.stop()
    free = runs.program.occupancy().free
    snapshot = runs.program.pause(sequence)
    assert isinstance(snapshot, Handle)
    runs.settle(lambda: not runs.program.transaction_open)
    (end,) = runs.program.collect_ends()[-1:]
    assert (end.kind, end.failed, end.subject) == (TransactionKind.PAUSE, False, snapshot)
    assert runs.program.occupancy().free.main_kv > free.main_kv
    runs.spoil()
    again = runs.bind(prompt, snapshot, takes_over=True)
    assert are_equal(runs.bits(again), before)
    go_on(runs, again, prompt, said, whole)
    assert runs.program.list_points() == []


@pytest.mark.parametrize("on_host", [False, True])
def test_an_input_point_gives_the_run_that_never_stopped(runs: Runs, whole: list[RunResult], on_host: bool) -> None:
    """[D5], [F2]: a resume at a point of the request's own plan, with its chunks, has its numbers."""
    sequence, _, point = runs.reach()
    runs.program.release(sequence)
    assert point is not None
    if on_host:
        runs.demote_all()
    for _ in range(2):  # once for a branch, once more from the point that stayed
        fresh = Prompt(IntBuffer(PROMPT), len(PROMPT), b"same", (POINT,))
        again = runs.bind(fresh, point, takes_over=False)
        assert runs.prefill(again, len(PROMPT) - POINT) is None
        go_on(runs, again, fresh, [], whole)
    runs.program.discard_point(point)


@pytest.mark.parametrize("takes_over", [True, False])
def test_a_chunk_that_follows_its_restore_has_the_same_numbers(
    runs: Runs, whole: list[RunResult], takes_over: bool
) -> None:
    """[decision 2], [decision 18], [C9]: submitted before anything of state and pages has come back from the host, over
    a page that is filled in part; nothing lands before the copies do."""
    sequence, _, point = runs.reach()
    runs.program.release(sequence)
    assert point is not None
    runs.demote_all()
    link = HeldLink(runs.device)
    fresh = Prompt(IntBuffer(PROMPT), len(PROMPT), b"same", (POINT,))
    again = runs.bind(fresh, point, takes_over=takes_over, waits=False)
    assert runs.program.may_start(again)
    assert runs.program.reserve_prefill(again, len(PROMPT) - POINT) is None
    runs.program.submit([], PrefillTurn(again, len(PROMPT) - POINT))
    runs.program.audit()
    assert not runs.program.may_start(again)
    runs.device.wait(0.05)
    assert runs.program.poll() == []
    link.release()
    done = runs.settle(lambda: not runs.program.in_flight(again))
    assert [type(event) for event in done] == [BindDone, PrefillDone]
    go_on(runs, again, fresh, [], whole)
    for kept in runs.program.list_points():
        runs.program.discard_point(kept)


def test_a_capture_changes_no_number(runs: Runs) -> None:
    """[D5]: the scan is cut at the frontier whether or not a state is kept there, in the middle of a chunk too."""
    said, bits = [], []
    for capture in (False, True):
        sequence, prompt, point = runs.reach((150,), capture=capture)
        assert (point is not None) == capture
        bits.append(runs.bits(sequence))
        said.append(runs.decode(sequence, prompt, 5))
        runs.program.release(sequence)
        for kept in runs.program.list_points():
            runs.program.discard_point(kept)
    assert are_equal(*bits)
    assert said[0] == said[1]


def test_a_state_captured_on_the_host_is_the_state(runs: Runs, whole: list[RunResult]) -> None:
    """[E2]: where no slot was to be had, the state as it stands goes to the host, and is the same there."""
    sequence, prompt, _ = runs.reach((POINT,), capture=False)
    before = runs.bits(sequence)
    assert runs.program.capture_on_host(sequence, CaptureRequest(POINT, PointKind.INPUT_POINT), None) is None
    runs.settle(lambda: not runs.program.in_flight(sequence))
    (end,) = runs.program.collect_ends()[-1:]
    assert end.subject is not None
    runs.prefill(sequence, len(PROMPT) - POINT)
    runs.program.release(sequence)
    runs.demote_all()
    again = runs.bind(prompt, end.subject, takes_over=False)
    assert runs.restored > 0
    assert are_equal(runs.bits(again), before)
    runs.prefill(again, len(PROMPT) - POINT)
    go_on(runs, again, prompt, [], whole)
    runs.program.discard_point(end.subject)
