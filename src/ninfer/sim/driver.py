"""Drives a Program on a SimDevice turn by turn, without an engine: for tests and benches of the procedures alone.

Waits for each step to land and audits after every poll. Policy is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ninfer.base.buffers import IntBuffer
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.ports.native import (
    Bound,
    CaptureRequest,
    DrawTurn,
    PointKind,
    PrefillDone,
    PrefillTurn,
    Progress,
    Prompt,
    RunDone,
)
from ninfer.ports.sampling import SamplingParams
from ninfer.program.program import Program

from .device import SimDevice

GREEDY = SamplingParams(temperature=0.0)
_MAX_POLLS = 1000


def make_prompt(tokens: Sequence[int], execution_frontiers: Sequence[int] = (), *, identity: bytes = b"sim") -> Prompt:
    """A text prompt over a fresh ledger."""
    return Prompt(IntBuffer(tokens), len(tokens), identity, tuple(execution_frontiers))


@dataclass(slots=True)
class Driver:
    """`audits`: recount everything after every poll."""

    device: SimDevice
    audits: bool = True
    program: Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = Program(self.device)

    def settle(self, sequence: Handle) -> list[Progress]:
        """Poll until nothing of the sequence is in flight; what was reported meanwhile, of anybody."""
        reported: list[Progress] = []
        for _ in range(_MAX_POLLS):
            reported += self.program.poll()
            if self.audits:
                self.program.audit()
            if not self.program.in_flight(sequence):
                return reported
        raise AssertionError("the device never finishes")

    def start(
        self,
        prompt: Prompt,
        point: Handle | None = None,
        *,
        takes_over: bool = False,
        first_unit_tokens: int = 512,
        gives_up_point: bool = False,
        lane: int = 0,
    ) -> Bound | Shortfall:
        """Quote and bind one source, which must serve the prompt, and wait for its copies."""
        quote = self.program.quote_source(
            prompt,
            point,
            takes_over=takes_over,
            first_unit_tokens=first_unit_tokens,
            gives_up_point=gives_up_point,
        )
        assert quote is not None, "the point does not serve this prompt"
        bound = self.program.bind(quote, prompt, LaneId(lane))
        if isinstance(bound, Bound):
            self.settle(bound.sequence)
        return bound

    def prefill(
        self,
        sequence: Handle,
        tokens: int,
        *,
        capture_at: int | None = None,
        retires: Handle | None = None,
        replay: bool = False,
    ) -> Handle | None:
        """One chunk with its permit; an input point at `capture_at`, which must find room. Returns the point."""
        assert self.program.reserve_prefill(sequence, tokens) is None
        capture = None
        if capture_at is not None:
            capture = CaptureRequest(capture_at, PointKind.INPUT_POINT)
            assert self.program.reserve_capture(sequence, capture, retires) is None
        captures = () if capture is None else (capture,)
        self.program.submit([], PrefillTurn(sequence, tokens, captures, replay))
        done = self.settle(sequence)
        reports = [event for event in done if isinstance(event, PrefillDone) and event.sequence == sequence]
        assert len(reports) == 1
        return reports[0].captured[0][1] if reports[0].captured else None

    def draw(self, sequence: Handle, *, decode: bool, accepted: int | None = None) -> list[int]:
        """One draw, and the commit of its run or of the first `accepted` tokens of it. Returns the run."""
        if decode:
            assert self.program.reserve_decode(sequence) is None
        self.program.submit([DrawTurn(sequence, decode, GREEDY, 0.0)], None)
        done = self.settle(sequence)
        runs = [event.run for event in done if isinstance(event, RunDone) and event.sequence == sequence]
        assert len(runs) == 1
        run = list(runs[0].token_ids)
        self.program.commit_run(sequence, len(run) if accepted is None else accepted)
        return run

    def generate(self, sequence: Handle, count: int, *, pending: bool = False) -> list[int]:
        """`count` draws one after another; the first feeds nothing unless a token is pending."""
        drawn: list[int] = []
        for index in range(count):
            drawn += self.draw(sequence, decode=pending or index > 0)
        return drawn
