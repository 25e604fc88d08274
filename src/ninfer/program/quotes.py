"""Read-only answers about sources: does this point serve this prompt, how is it handed over, what does it take (G4).

Changes nothing. Every quote carries the epoch that made it (V-14).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from ninfer.base.ids import Handle
from ninfer.base.pools import ZERO, Amounts, Pool
from ninfer.ports.native import HandOver, PointKind, Prompt, SourceQuote
from ninfer.store.checkpoints import Checkpoint
from ninfer.store.stores import ContextStores

from .permits import amounts_between, amounts_of_branch
from .restore import find_missing


@dataclass(frozen=True, slots=True)
class HandOverCost:
    """What a hand-over takes from the pools and what it frees in the same act.

    `copied`: pages and states moved; `restored`: those of them that come from the host.
    """

    takes: Amounts
    frees: Amounts
    copied: Amounts
    restored: Amounts = ZERO

    @property
    def need(self) -> Amounts:
        """What must be free beforehand, pool by pool."""
        return Amounts.of({pool: max(0, self.takes[pool] - self.frees[pool]) for pool in Pool})


def quote_root(stores: ContextStores, prompt: Prompt, first_unit_tokens: int) -> SourceQuote:
    """Start from nothing; always possible in principle."""
    tokens = min(first_unit_tokens, len(prompt.tokens))
    assert tokens > 0, "a root source computes at least one prompt token"
    return SourceQuote(
        checkpoint=None,
        frontier=0,
        hand_over=HandOver.ROOT,
        takes_over=False,
        carried=(),
        retires=(),
        need=amounts_between(stores, 0, tokens, slots=1),
        copied_bytes=0,
        epoch=stores.epoch.value,
        first_unit_tokens=tokens,
    )


def quote_point(
    stores: ContextStores,
    prompt: Prompt,
    point: Handle,
    *,
    takes_over: bool,
    first_unit_tokens: int,
    gives_up_point: bool,
    may_end: frozenset[Handle] | None,
) -> SourceQuote | None:
    """Verify and price one point. None: tokens, media or identity differ, or it lies beyond the prompt (D10)."""
    checkpoint = stores.checkpoints[point]
    if checkpoint.frontier > prompt.prompt_tokens:
        return None
    if not checkpoint.identity.is_prefix_of(prompt.tokens, prompt.execution_identity, prompt.media):
        return None
    takes_over = takes_over and _may_take_over(stores, checkpoint, may_end)
    if checkpoint.kind is PointKind.SNAPSHOT and not takes_over:
        return None
    hand_over = HandOver.FORK
    carried: tuple[Handle, ...] = ()
    retires: tuple[Handle, ...] = ()
    if takes_over:
        if may_end is None or point in may_end:
            hand_over = _choose_hand_over(stores, checkpoint, gives_up_point=gives_up_point)
        moved = point if hand_over is HandOver.MOVE and not keeps_on_host(stores, checkpoint) else None
        carried, retires = _sort_points(stores, checkpoint, moved, may_end)
    quote = SourceQuote(
        checkpoint=point,
        frontier=checkpoint.frontier,
        hand_over=hand_over,
        takes_over=takes_over,
        carried=carried,
        retires=retires,
        need=ZERO,
        copied_bytes=0,
        epoch=stores.epoch.value,
        first_unit_tokens=min(first_unit_tokens, len(prompt.tokens) - checkpoint.frontier),
    )
    return _with_cost(stores, quote)


def cost_of(stores: ContextStores, quote: SourceQuote) -> HandOverCost:
    """Slots and pages a hand-over takes and frees: active slot, tail copies, growth of the first unit (G4)."""
    frontier = quote.frontier
    stop = first_unit_stop(quote)
    slots = 0 if quote.hand_over is HandOver.MOVE else 1
    if quote.checkpoint is None:
        return HandOverCost(amounts_between(stores, 0, stop, slots=slots), ZERO, ZERO)
    directory = stores.checkpoints[quote.checkpoint].directory
    missing = find_missing(stores, quote)
    back = Amounts.of(missing.count_pages())
    host_tails = Amounts.of({pool: 1 for pool, _ in missing.tails})
    restored = host_tails + back + Amounts(state=int(missing.image is not None))
    if not quote.takes_over:  # full pages are shared; the tail copy is the first of the pages taken
        tails = Amounts.of({pool: 1 for pool, _ in directory.list_tails(frontier)})
        takes = amounts_of_branch(stores, frontier, stop, slots=slots)
        return HandOverCost(takes + back, ZERO, tails + restored, restored)
    tails = Amounts.of({pool: 1 for pool, _ in directory.list_shared_tails(frontier)})
    growth = amounts_between(stores, frontier, stop, slots=slots)
    frees = stores.checkpoints.count_freed(quote.retires, {directory.serial: frontier})
    return HandOverCost(growth + tails + host_tails + back, frees, tails + restored, restored)


def first_unit_stop(quote: SourceQuote) -> int:
    """Tokens the first unit covers; after an exact hit it feeds the drawn token."""
    if quote.first_unit_tokens:
        return quote.frontier + quote.first_unit_tokens
    return quote.frontier + 1


def _choose_hand_over(stores: ContextStores, checkpoint: Checkpoint, *, gives_up_point: bool) -> HandOver:
    """Move only what nobody else owns or reads (F3); an input point stays unless it is given up."""
    exclusive = checkpoint.slot is not None and stores.slots.refs(checkpoint.slot) == 1
    match checkpoint.kind:
        case PointKind.END | PointKind.SNAPSHOT:
            return HandOver.MOVE if exclusive else HandOver.FORK
        case PointKind.INPUT_POINT:
            return HandOver.MOVE if exclusive and gives_up_point else HandOver.FORK
        case _:
            assert_never(checkpoint.kind)


def keeps_on_host(stores: ContextStores, checkpoint: Checkpoint) -> bool:
    """Whether an input point whose slot moves on can stay by a complete host replica (F3)."""
    is_input = checkpoint.kind is PointKind.INPUT_POINT
    return is_input and checkpoint.slot is not None and stores.copies.find_host(Pool.STATE, checkpoint.slot) is not None


def _may_take_over(stores: ContextStores, checkpoint: Checkpoint, may_end: frozenset[Handle] | None) -> bool:
    """A history with a writer, one that a paused request will write on, or one with deeper points of others: branch."""
    if checkpoint.directory.has_writer:
        return False
    for frontier, point in checkpoint.directory.list_holders():
        other = stores.checkpoints[point]
        if other.kind is PointKind.SNAPSHOT and other is not checkpoint:
            return False
        if frontier > checkpoint.frontier and may_end is not None and point not in may_end:
            return False
    return True


def _sort_points(
    stores: ContextStores, source: Checkpoint, moved: Handle | None, may_end: frozenset[Handle] | None
) -> tuple[tuple[Handle, ...], tuple[Handle, ...]]:
    """Points of the history that ride along, shallowest first, and those that end, deepest first."""
    carried: list[Handle] = []
    retires: list[Handle] = []
    for frontier, point in source.directory.list_holders():
        if point == moved:
            continue
        ends = frontier > source.frontier or stores.checkpoints[point].kind is not PointKind.INPUT_POINT
        ends = ends and (may_end is None or point in may_end)
        (retires if ends else carried).append(point)
    return tuple(carried), tuple(reversed(retires))


def _with_cost(stores: ContextStores, quote: SourceQuote) -> SourceQuote:
    cost = cost_of(stores, quote)
    copied, restored = (_count_bytes(stores, amounts) for amounts in (cost.copied, cost.restored))
    return replace(quote, need=cost.need, copied_bytes=copied, restored_bytes=restored)


def _count_bytes(stores: ContextStores, amounts: Amounts) -> int:
    return sum(stores.copies.block_bytes(pool) * count for pool, count in amounts.items())
