"""Reclaim against the brute-force optimum of the source's order, over every small world ([I2], [I3], [I4], [I5]).

"Every": at most four checkpoints at three levels of three histories, all ways in which the histories share their
beginnings, private, public and double use, patterns of demand; one world of each class under renaming. About 97,000
worlds; their number is asserted, so that nothing falls out unnoticed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from small_worlds import (
    LEVEL_TOKENS,
    World,
    list_structures,
    list_worlds,
    naive_loss,
    naive_order,
    naive_pages,
)

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import DeleteAction
from ninfer.resource.admission import Limits
from ninfer.resource.continuation import History
from ninfer.resource.demand import position_at
from ninfer.resource.loss import RestorePaths
from ninfer.resource.ranking import Facts, Holder, assess_all, order_of_source, rank
from ninfer.resource.uses import Uses

WORLDS = 96_771


@cache
def history_of(path: tuple[int, ...]) -> History:
    """Tokens of a path of labels; equal labels are equal tokens."""
    tokens: list[int] = []
    for level, label in enumerate(path):
        tokens += [1000 * level + label] * (LEVEL_TOKENS[level] - len(tokens))
    buffer, digests = IntBuffer(tokens), PrefixDigests(b"small")
    digests.extend_to(buffer, len(tokens))
    return History(buffer, digests)


def build_paths(world: World) -> RestorePaths:
    """The tree, its points published in order of their numbers."""
    paths = RestorePaths()
    for number in range(len(world.spots)):
        path = world.path(number)
        history, tokens = history_of(path), LEVEL_TOKENS[len(path) - 1]
        above = [other for other in range(number) if path[: len(world.path(other))] == world.path(other) != path]
        shallower = max(above, key=lambda other: len(world.path(other)), default=None)
        position = position_at(history.tokens, history.digests, tokens)
        paths.publish(Handle(number, 0), position, history, None if shallower is None else Handle(shallower, 0))
    return paths


def holders_of(world: World, used: list[int]) -> dict[Handle, list[Holder]]:
    holders: dict[Handle, list[Holder]] = {}
    for serial, owner in enumerate(world.owners):
        at = world.demand[serial]
        frontiers = {Handle(i, 0): LEVEL_TOKENS[world.spots[i].level] for i in owner.spots}
        proven = LEVEL_TOKENS[world.proven[serial]] if at else None
        holder = Holder(serial, frontiers, used[serial], owner.is_public, bool(at), at, proven)
        for point in frontiers:
            holders.setdefault(point, []).append(holder)
    return holders


def subsets(count: int) -> Iterator[frozenset[int]]:
    for size in range(1, count + 1):
        yield from map(frozenset, itertools.combinations(range(count), size))


def actions_of(world: World) -> list[tuple[frozenset[int], DeleteAction]]:
    """Every set of checkpoints as an action, with what it really frees."""
    count = len(world.spots)
    everything = frozenset(range(count))
    whole = naive_pages(world, everything)
    found = []
    for gone in subsets(count):
        frees = Amounts(state=len(gone), main_kv=whole - naive_pages(world, everything - gone))
        deepest = max(LEVEL_TOKENS[world.spots[i].level] for i in gone)
        found.append((gone, DeleteAction(tuple(Handle(i, 0) for i in sorted(gone)), frees, deepest, 0)))
    return found


def test_the_first_action_is_the_optimum_of_the_order() -> None:
    """[I3] [I4] [I5]: for one state and for three pages, whatever the demand."""
    worlds = 0
    for labels, spots in list_structures(4):
        family = list(list_worlds(labels, spots))
        paths, actions = build_paths(family[0]), actions_of(family[0])
        paths.audit()
        losses = {gone: naive_loss(family[0], gone) for gone, _ in actions}
        for gone, action in actions:
            assert paths.loss_of(action.points) == losses[gone], (labels, spots, gone)
        for world in family:
            check_choice(world, paths, actions)
            worlds += 1
    assert worlds == WORLDS


def check_choice(world: World, paths: RestorePaths, actions: list[tuple[frozenset[int], DeleteAction]]) -> None:
    used = [7 - serial for serial in range(len(world.owners))]
    facts = Facts(holders_of(world, used), paths.loss_of)
    for pool, gap in ((Pool.STATE, 1), (Pool.MAIN_KV, 3)):
        wanted = [(gone, action) for gone, action in actions if pool is Pool.MAIN_KV or len(gone) == 1]
        useful = {gone: min(gap, action.frees[pool]) for gone, action in wanted if action.frees[pool]}
        if not useful:
            continue
        block = assess_all(facts, [action for _, action in wanted if action.frees[pool]], pool)
        first = next(rank([block], gap, order_of_source, Uses(), Limits()))
        orders = {gone: naive_order(world, gone, use, used) for gone, use in useful.items()}
        chosen = frozenset(point.index for point in first.action.points)
        assert orders[chosen] == min(orders.values()), (world, pool, gap, chosen)
