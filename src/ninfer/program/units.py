"""Units as the device gets them: rows of tokens, positions, page tables, slots and cuts.

Pure description of a sequence's next piece of work. Tokens, positions and cuts are explicit; nothing is derived from a
length below this line (settled decision 17).
"""

from __future__ import annotations

from array import array
from enum import Enum
from itertools import chain
from typing import assert_never

from ninfer.base.frontier import backend_frontier, page_of
from ninfer.base.pools import Pool
from ninfer.ports.device import SampleRow, StateCut, UnitRow
from ninfer.ports.native import DrawTurn, Prompt

from .sequence import Sequence


class Work(Enum):
    """What a unit does, as far as the room it needs depends on it (C6)."""

    PROMPT = "prompt"
    """Prefill or Replay: prompt and committed history, a chunk of them."""
    DECODE = "decode"
    """Feed what is committed and draw; VERIFY where several tokens wait."""
    AHEAD = "ahead"
    """The speculative peak: feed a drawn run before anybody has said how much of it stays (decision 5)."""
    CONTROL = "control"
    NORMALIZE = "normalize"


def find_stop(sequence: Sequence, work: Work, tokens: int = 0) -> int:
    """Where KV and state of a unit end, told in tokens of the history; each pool's pages follow from its own frontier.

    `tokens`: of a chunk, or of the run that a launch ahead feeds.
    """
    ledger = sequence.ledger
    match work:
        case Work.PROMPT:
            stop = ledger.execution_frontier + tokens
            assert tokens > 0, "C6: an empty unit"
            assert stop <= ledger.prompt_tokens, "C6: the unit runs past the prompt"
            return stop
        case Work.DECODE:  # or one more when the next token is not drawn yet (D9)
            return max(ledger.ledger_frontier, ledger.execution_frontier + 1)
        case Work.AHEAD:
            return ledger.ledger_frontier + tokens
        case Work.CONTROL:  # the token that is said is fed by the unit after it
            return ledger.ledger_frontier
        case Work.NORMALIZE:
            return max(ledger.execution_frontier, ledger.ledger_frontier - 1)
        case _:
            assert_never(work)


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
        pages=_page_views(sequence),
        read_slot=sequence.read_slot,
        write_slot=sequence.slot,
        cuts=cuts,
    )


def _page_views(sequence: Sequence) -> dict[Pool, memoryview]:
    """The page tables; before the copies of a bind have landed, as they will be then."""
    tables = sequence.directory.tables
    if sequence.restoring is None:
        return {pool: table.entries.view() for pool, table in tables.items()}
    copies = {pool: array("i", table.entries.view()) for pool, table in tables.items()}
    frontier = sequence.ledger.execution_frontier
    for pool, index, page in sequence.restoring.list_targets(frontier):
        copies[pool][index] = page
    if sequence.tails is not None and sequence.tails.replaces:
        for pool, page in sequence.tails.pages:
            copies[pool][page_of(backend_frontier(pool, frontier))] = page
    return {pool: memoryview(copy) for pool, copy in copies.items()}


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
