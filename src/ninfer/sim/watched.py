"""The true Program, watched: calls are counted and told, and optional allocations are refused now and then.

It may say that there is no room for something optional although there is. Nothing required is ever refused.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ninfer.base.events import (
    BindLacked,
    BoundSource,
    CaptureRefused,
    CaptureReserved,
    Committed,
    Demoted,
    Froze,
    Landed,
    Reclaimed,
    Released,
    Revoked,
    Snapped,
    Submitted,
    TraceEvent,
    TraceSink,
    TransactionEnded,
    UnitLacked,
)
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import (
    BindDone,
    Bound,
    CaptureRequest,
    ControlTurn,
    DecodeTurn,
    DeleteAction,
    DemoteAction,
    Demoting,
    DrawTurn,
    HandOver,
    NormalizeDone,
    NormalizeTurn,
    PrefillDone,
    PrefillTurn,
    Progress,
    Prompt,
    RunDone,
    SourceQuote,
)
from ninfer.ports.transactions import TransactionEnd
from ninfer.program.program import Program

from .counts import Counts
from .device import SimDevice
from .faults import FaultPlan, Site

FULL_RECOUNT_EVERY = 8
"""Audits with a full recount of the stores, at least one in so many; in between only after something has changed."""


class WatchedProgram(Program):
    """A Program over the simulated device."""

    def __init__(
        self, device: SimDevice, counts: Counts, plan: FaultPlan, *, seed: int, listener: TraceSink | None
    ) -> None:
        super().__init__(device, device)
        self._counts = counts
        self._refused = plan.refused
        self._chances = {site: random.Random(f"refusals {site.value} {seed}") for site in Site}
        self._listener = listener
        self._lacking: list[Handle] = []
        self._audits = 0
        self._audited_epoch = -1

    def take_lacking(self) -> list[Handle]:
        """Sequences that found no room for their next unit since the last look."""
        lacking, self._lacking = self._lacking, []
        return lacking

    def bind(self, quote: SourceQuote, prompt: Prompt, lane: LaneId) -> Bound | Shortfall:
        """Counted by how the source was handed over."""
        trims = any(self.point_frontier(point) > quote.frontier for point in quote.retires)
        bound = super().bind(quote, prompt, lane)
        point = None if quote.checkpoint is None else str(quote.checkpoint)
        if isinstance(bound, Shortfall):
            self._tell(BindLacked, lane, point, bound.pool.value, bound.need, bound.free)
            return bound
        self._counts.forks += quote.hand_over is HandOver.FORK
        self._counts.moves += quote.hand_over is HandOver.MOVE
        self._counts.trims += trims
        self._counts.tail_copies += quote.copied_bytes > quote.restored_bytes
        self._counts.restores += quote.restored_bytes > 0
        self._counts.exact_hits += quote.first_unit_tokens == 0
        self._tell(
            BoundSource,
            str(bound.sequence),
            lane,
            quote.hand_over.value,
            point,
            quote.frontier,
            quote.takes_over,
            _names(bound.carried),
            _names(bound.consumed),
        )
        return bound

    def reserve_prefill(self, sequence: Handle, tokens: int) -> Shortfall | None:
        """Noted when it finds no room."""
        return self._note_lack(sequence, super().reserve_prefill(sequence, tokens))

    def reserve_decode(self, sequence: Handle) -> Shortfall | None:
        """Noted when it finds no room."""
        return self._note_lack(sequence, super().reserve_decode(sequence))

    def reserve_capture(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Optional: refused now and then."""
        planted = self._plant(Site.CAPTURE, Pool.STATE)
        shortfall = planted or super().reserve_capture(sequence, capture, retires)
        self._counts.captures_refused += shortfall is not None
        if shortfall is None:
            self._tell(CaptureReserved, str(sequence), capture.frontier, _name(retires))
        else:
            self._tell(CaptureRefused, str(sequence), capture.frontier, planted is not None)
        return shortfall

    def capture_on_host(self, sequence: Handle, capture: CaptureRequest, retires: Handle | None) -> Shortfall | None:
        """Optional: refused now and then."""
        planted = self._plant(Site.HOST_CAPTURE, Pool.HOST)
        shortfall = planted or super().capture_on_host(sequence, capture, retires)
        self._counts.host_captures += shortfall is None
        if shortfall is None:
            self._tell(CaptureReserved, str(sequence), capture.frontier, _name(retires))
        else:
            self._tell(CaptureRefused, str(sequence), capture.frontier, planted is not None)
        return shortfall

    def demote(
        self, action: DemoteAction, *, most: int | None = None, keeps_device: bool = False
    ) -> Demoting | Shortfall:
        """Optional where something must be placed on the host: refused now and then."""
        site = Site.WRITE_BACK if keeps_device else Site.DEMOTION
        planted = self._plant(site, Pool.HOST) if action.moved_bytes else None
        outcome = planted or super().demote(action, most=most, keeps_device=keeps_device)
        if isinstance(outcome, Demoting):
            self._counts.demotions += not keeps_device
            self._counts.write_backs += keeps_device
            pages = None if action.pages is None else action.pages.stop - action.pages.first
            self._tell(Demoted, _names(action.points), action.pool.value, pages, keeps_device)
        return outcome

    def demote_batch(self, actions: Sequence[DemoteAction], most: int) -> Demoting | Shortfall:
        """Optional: refused now and then."""
        planted = self._plant(Site.DEMOTION, Pool.HOST) if any(action.moved_bytes for action in actions) else None
        outcome = planted or super().demote_batch(actions, most)
        if isinstance(outcome, Demoting):
            self._counts.demotions += 1
            self._counts.batches += len(actions) > 1
            points = tuple(dict.fromkeys(point for action in actions for point in action.points))
            self._tell(Demoted, _names(points), actions[0].pool.value, most, False)
        return outcome

    def pause(self, sequence: Handle) -> Handle | Shortfall:
        """A snapshot is optional: refused now and then."""
        outcome = self._plant(Site.SNAPSHOT, Pool.HOST) or super().pause(sequence)
        if not isinstance(outcome, Shortfall):
            self._counts.snapshots += 1
            self._tell(Snapped, str(sequence), str(outcome))
        return outcome

    def revoke_snapshot(self, snapshot: Handle) -> Amounts:
        """Counted."""
        freed = super().revoke_snapshot(snapshot)
        self._counts.revoked += 1
        self._tell(Revoked, str(snapshot))
        return freed

    def collect_ends(self) -> list[TransactionEnd]:
        """Told, and counted by what failed."""
        ends = super().collect_ends()
        for end in ends:
            self._counts.failed_transfers += end.failed
            self._tell(TransactionEnded, end.kind.value, end.failed, _name(end.subject))
        return ends

    def reserve_control(self, sequence: Handle) -> Shortfall | None:
        """Noted when it finds no room."""
        return self._note_lack(sequence, super().reserve_control(sequence))

    def submit(self, turns: Sequence[DecodeTurn], prefill: PrefillTurn | None, *, runs_ahead: bool = False) -> int:
        """Told; launches ahead, tokens that control says and snapshots' preparations are counted."""
        self._counts.controls += sum(isinstance(turn, ControlTurn) for turn in turns)
        self._counts.normalized += sum(isinstance(turn, NormalizeTurn) for turn in turns)
        self._counts.early_starts += prefill is not None and self._sequences[prefill.sequence].restoring is not None
        if self._listener is not None:
            names = tuple(map(_name_turn, turns))
            if prefill is None:
                self._tell(Submitted, names, None, 0, False)
            else:
                self._tell(Submitted, names, str(prefill.sequence), prefill.tokens, prefill.replay)
        launched = super().submit(turns, prefill, runs_ahead=runs_ahead)
        self._counts.launches_ahead += launched
        return launched

    def poll(self) -> list[Progress]:
        """Kept captures and long runs are counted."""
        done = super().poll()
        for progress in done:
            if isinstance(progress, PrefillDone):
                self._counts.captures += len(progress.captured)
            elif isinstance(progress, RunDone):
                self._counts.long_runs += len(progress.run.token_ids) > 1
            if self._listener is not None:
                self._listener(_landed(progress))
        return done

    def run_ahead(self, sequences: Sequence[Handle]) -> int:
        """Counted."""
        launched = super().run_ahead(sequences)
        self._counts.launches_ahead += launched
        return launched

    def commit_run(self, sequence: Handle, accepted: int) -> None:
        """Told."""
        self._tell(Committed, str(sequence), accepted)
        super().commit_run(sequence, accepted)

    def freeze_end(self, sequence: Handle) -> Handle:
        """Told."""
        point = super().freeze_end(sequence)
        self._tell(Froze, str(sequence), str(point))
        return point

    def release(self, sequence: Handle) -> None:
        """Told."""
        self._tell(Released, str(sequence), self.in_flight(sequence))
        super().release(sequence)

    def discard_point(self, point: Handle) -> None:
        """Counted as a trim when a history that goes on loses pages by it."""
        directory, before = self._stores.checkpoints[point].directory, self.occupancy().free
        super().discard_point(point)
        self._counts.trims += not directory.is_unheld and self.occupancy().free.main_kv > before.main_kv

    def delete(self, action: DeleteAction) -> Amounts:
        """Counted, and as a trim when a history that goes on loses pages by it."""
        histories = [self._stores.checkpoints[point].directory for point in action.points]
        freed = super().delete(action)
        self._counts.reclaims += 1
        self._counts.trims += freed.main_kv > 0 and not all(history.is_unheld for history in histories)
        self._tell(Reclaimed, _names(action.points), tuple(f"{pool.value}:{amount}" for pool, amount in freed.items()))
        return freed

    def audit(self) -> None:
        """The full recount, unless nothing has changed in the stores since the last one."""
        self._audits += 1
        epoch = self._stores.epoch.value
        if epoch != self._audited_epoch or self._audits % FULL_RECOUNT_EVERY == 0:
            super().audit()
            self._audited_epoch = epoch

    def _plant(self, site: Site, pool: Pool) -> Shortfall | None:
        """A refusal as if the pool were full, or None."""
        share = self._refused.get(site, 0.0)
        if not share or self._chances[site].random() >= share:
            return None
        self._counts.refusals += 1
        free = self.occupancy().free[pool]
        return Shortfall(pool, free + 1, free)

    def _note_lack(self, sequence: Handle, shortfall: Shortfall | None) -> Shortfall | None:
        if shortfall is not None:
            self._lacking.append(sequence)
            self._tell(UnitLacked, str(sequence), shortfall.pool.value, shortfall.need, shortfall.free)
        return shortfall

    def _tell(self, event: type[TraceEvent], *fields: object) -> None:
        if self._listener is not None:
            self._listener(event(*fields))


def _name(handle: Handle | None) -> str | None:
    return None if handle is None else str(handle)


def _names(handles: Sequence[Handle]) -> tuple[str, ...]:
    return tuple(map(str, handles))


def _name_turn(turn: DecodeTurn) -> str:
    match turn:
        case DrawTurn():
            return f"{turn.sequence}{'' if turn.decode else '*'}"
        case ControlTurn():
            return f"{turn.sequence}!{turn.token_id}"
        case NormalizeTurn():
            return f"{turn.sequence}~"


def _landed(progress: Progress) -> Landed:
    sequence = str(progress.sequence)
    match progress:
        case BindDone():
            return Landed("bind", sequence)
        case PrefillDone():
            return Landed(
                "prefill", sequence, progress.frontier, " ".join(str(point) for _, point in progress.captured) or None
            )
        case NormalizeDone():
            return Landed("normalize", sequence, progress.frontier)
        case RunDone():
            return Landed("run", sequence, len(progress.run.token_ids))
