"""Units as the device gets them: rows of tokens, positions, page tables, slots and cuts.

Pure description of a sequence's next piece of work. Tokens, positions and cuts are explicit; nothing is derived from a
length below this line (settled decision 17).
"""

from __future__ import annotations

from array import array
from itertools import chain

from ninfer.ports.device import SampleRow, StateCut, UnitRow
from ninfer.ports.native import DrawTurn, Prompt

from .sequence import Sequence


def decode_stop(sequence: Sequence) -> int:
    """Where the next decode ends: after all committed tokens, or one more when the next one is not drawn yet (D9)."""
    return max(sequence.ledger.ledger_frontier, sequence.ledger.execution_frontier + 1)


def positions_between(prompt: Prompt, start: int, stop: int) -> memoryview:
    """int32 [3 * (stop - start)], axis-major: the prompt's own triples, then index + rope_delta on all axes."""
    given = 0 if prompt.positions is None else len(prompt.positions) // 3
    if start >= given:
        axis = array("i", range(start + prompt.rope_delta, stop + prompt.rope_delta))
        return memoryview(axis * 3)
    assert prompt.positions is not None
    split = min(stop, given)
    beyond = array("i", range(split + prompt.rope_delta, stop + prompt.rope_delta))
    axes = ((prompt.positions.view(axis * given + start, axis * given + split), beyond) for axis in range(3))
    return memoryview(array("i", chain.from_iterable(chain.from_iterable(axes))))


def cuts_between(sequence: Sequence, start: int, stop: int) -> tuple[StateCut, ...]:
    """Cuts at the prompt's execution frontiers, kept or not (D5); those of captures have slots."""
    kept = {capture.request.frontier: capture.slot for capture in sequence.captures}
    cuts = {frontier for frontier in sequence.prompt.execution_frontiers if start < frontier < stop}
    return tuple(StateCut(frontier - start, kept.get(frontier)) for frontier in sorted(cuts.union(kept)))


def unit_row(sequence: Sequence, stop: int, cuts: tuple[StateCut, ...] = ()) -> UnitRow:
    """Feed the ledger from the execution frontier to `stop`, from the state as it stands into the active slot."""
    start = sequence.ledger.execution_frontier
    return UnitRow(
        lane=sequence.lane,
        token_ids=sequence.ledger.tokens.view(start, stop),
        start=start,
        positions=positions_between(sequence.prompt, start, stop),
        pages={pool: table.entries.view() for pool, table in sequence.directory.tables.items()},
        read_slot=sequence.read_slot,
        write_slot=sequence.slot,
        cuts=cuts,
    )


def sample_row(sequence: Sequence, turn: DrawTurn) -> SampleRow:
    """Draw from the tail hidden row: after this cycle's feed, or as the state stands (D9)."""
    slot = sequence.fed_slot if turn.decode else sequence.read_slot
    assert slot is not None, "D9: there is no hidden row to draw from"
    return SampleRow(
        lane=sequence.lane,
        slot=slot,
        position=sequence.ledger.ledger_frontier,
        params=turn.params,
        uniform=turn.uniform,
        output_ids=turn.output_ids,
        mask=turn.mask,
        logprobs=turn.logprobs,
    )
