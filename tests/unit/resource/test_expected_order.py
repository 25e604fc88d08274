"""Reclaim by expected loss against a naive reading of it, over small worlds of points ([I4], docs/adr/0007)."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import LEVEL_TOKENS, World, list_structures, list_worlds
from test_small_worlds import actions_of, build_paths, holders_of

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.resource.admission import Limits
from ninfer.resource.continuation import Continuation, History, Use
from ninfer.resource.ranking import Facts, assess_all, order_of_expectation, rank
from ninfer.resource.shared import SharedEntry
from ninfer.resource.uses import REMEMBERED_USES, Uses
from ninfer.resource.worth import Starts, list_weights

EVERY = 97
"""One world in so many: the whole set is checked under the source's order."""


def naive_expected(world: World, gone: frozenset[int], weights: list[float]) -> float:
    """Each start by itself: what it needs from where it would have started down to what survives above it."""
    everything = {world.path(i) for i in range(len(world.spots))}
    survivors = {world.path(i) for i in range(len(world.spots)) if i not in gone}
    total = 0.0
    for i, weight in enumerate(weights):
        path = world.path(i)
        if path in survivors:
            continue
        above = [place for place in everything if place in survivors and path[: len(place)] == place]
        fallback = max((LEVEL_TOKENS[len(place) - 1] for place in above), default=0)
        total += weight * (LEVEL_TOKENS[len(path) - 1] - fallback)
    return total


def test_the_first_action_is_the_optimum_of_what_is_expected() -> None:
    """[I4]: over every 97th small world, for one state and for three pages, whatever the likelihoods and ages."""
    checked = 0
    for labels, spots in itertools.islice(list_structures(4), 0, None, EVERY):
        world = next(iter(list_worlds(labels, spots)))
        paths, actions = build_paths(world), actions_of(world)
        weights = [0.1 + 0.3 * (i % 3) for i in range(len(spots))]
        used = [3 + 5 * (serial % 2) for serial in range(len(world.owners))]
        uses = Uses()
        for _ in range(12):
            uses.note_asked(400)
            uses.count()
        facts = Facts(
            holders_of(world, used),
            paths.loss_of,
            lambda points, paths=paths, weights=weights: paths.expected_loss(points, lambda at: weights[at.index]),
        )
        for pool, gap in ((Pool.STATE, 1), (Pool.MAIN_KV, 3)):
            wanted = {gone: action for gone, action in actions if action.frees[pool]}
            if not wanted:
                continue
            first = next(rank([assess_all(facts, wanted.values(), pool)], gap, order_of_expectation, uses, Limits()))
            costs = {}
            for gone, action in wanted.items():
                last = max(used[serial] for serial, owner in enumerate(world.owners) if gone & set(owner.spots))
                idle = min(12 - last, 6 * 400 * (12 - last) / action.lost_tokens) + 4
                expected = naive_expected(world, gone, weights)
                costs[gone] = expected / (min(gap, action.frees[pool]) * idle**2)
            chosen = frozenset(point.index for point in first.action.points)
            assert costs[chosen] <= min(costs.values()) * (1 + 1e-9), (labels, spots, pool)
            checked += 1
    assert checked > 50


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=60))
def test_what_was_asked_since_a_use_is_its_sum(lengths: list[int]) -> None:
    uses, orders = Uses(), []
    for length in lengths:
        orders.append(uses.count())
        uses.note_asked(length)
    since = uses.list_asked_since(np.array(orders, np.float64))
    assert since.tolist() == [sum(lengths[i:]) for i in range(len(lengths))]


def test_uses_long_ago_count_as_the_oldest_that_is_remembered() -> None:
    """[C5]: memory does not grow with uses."""
    uses = Uses()
    for _ in range(REMEMBERED_USES + 10):
        uses.note_asked(1)
        uses.count()
    assert uses.list_asked_since(np.array([1, 11], np.float64)).tolist() == [REMEMBERED_USES - 1] * 2


def test_a_share_passes_on_and_what_is_counted_tells() -> None:
    """[H1]: the shares of one conversation sum to one, whatever is left of it, and follow its real starts."""
    starts, record = Starts(), make_record()
    end, given = Handle(1, 0), Handle(0, 0)
    weights = list_weights(starts, [record], [])
    assert weights[end] > weights[given]
    for _ in range(20):
        starts.note(record, None, given)
    later = list_weights(starts, [record], [])
    assert later[given] > 0.8 > later[end]
    record.retire(end)
    alone = list_weights(starts, [record], [])[given]
    assert alone > later[given] + later[end] - 1e-9
    left = SharedEntry(9, record.history, Handle(2, 0), 70)
    left.leave(record)
    record.retire(given)
    assert abs(list_weights(starts, [record], [left])[Handle(2, 0)] - 1) < 1e-9
    record.turns += 1
    old = SharedEntry(10, record.history, Handle(3, 0), 60)
    old.leave(record)
    record.turns += 1
    assert list_weights(starts, [record], [left, old])[Handle(3, 0)] == 0.01


def test_a_shared_entry_counts_whole_once_somebody_else_has_it() -> None:
    """[D11] [M2]: over a private point it counts as that, until a request has started from it."""
    record = make_record()
    entry = SharedEntry(9, record.history, Handle(0, 0), 100)
    private = list_weights(Starts(), [record], [])[Handle(0, 0)]
    assert list_weights(Starts(), [record], [entry])[Handle(0, 0)] == private
    entry.note_use(1)
    assert list_weights(Starts(), [record], [entry])[Handle(0, 0)] == 1.0


def make_record() -> Continuation:
    tokens = IntBuffer(range(200))
    record = Continuation(1, History(tokens, PrefixDigests(b"worth")))
    record.publish(Handle(0, 0), 100, frozenset({Use.INPUT}))
    record.publish(Handle(1, 0), 150, frozenset({Use.END}))
    return record
