"""In which order optional points are given up (I4, I5), and how records count their loss."""

from __future__ import annotations

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle, Ticket
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import DeleteAction
from ninfer.resource.continuation import Continuation, History
from ninfer.resource.reclaim import HALVING_USES, REUSED_USES, Standing, fade, find_reused, rank_actions

HISTORY = History(IntBuffer(), PrefixDigests(b"x"))


class World:
    """Records with points, and the actions that would end them one by one."""

    def __init__(self) -> None:
        self.records: list[Continuation] = []
        self.owners: dict[Handle, Continuation] = {}

    def add(self, *frontiers: int, used: int, adoptions: int = 0, user: int | None = None) -> list[Handle]:
        record = Continuation(len(self.records), HISTORY, last_used=used, adoptions=adoptions)
        record.user = None if user is None else Ticket(user)
        self.records.append(record)
        points = []
        for frontier in frontiers:
            point = Handle(len(self.owners), 0)
            record.frontiers[point] = frontier
            self.owners[point] = record
            points.append(point)
        return points

    def order(self, keep: frozenset[Handle] = frozenset(), spare: int = 100, uses: int = 0) -> list[Handle]:
        actions = [
            DeleteAction((point,), Amounts(state=1), self.owners[point].frontiers[point], 0) for point in self.owners
        ]
        reused = find_reused(self.records, spare, uses)
        ranked = rank_actions(actions, Pool.STATE, self.owners, reused, keep, uses)
        return [entry.action.points[0] for entry in ranked]


def test_the_least_loss_goes_first_and_an_endpoint_has_its_input_point_as_fallback() -> None:
    """[I4], [I5]"""
    world = World()
    chat_input, chat_end = world.add(9000, 9100, used=1)
    (one_shot,) = world.add(60, used=5)
    assert world.order() == [one_shot, chat_end, chat_input]


def test_equal_losses_go_by_last_use() -> None:
    """[I4]"""
    world = World()
    (young,), (old,) = world.add(500, used=9), world.add(500, used=2)
    assert world.order() == [old, young]


def test_reused_records_go_after_ordinary_ones_oldest_first_and_those_in_use_last() -> None:
    """[I4], [H3]"""
    world = World()
    (running,) = world.add(10, used=1, user=3)
    (hot_new,), (hot_old,) = world.add(20, used=8, adoptions=1), world.add(9000, used=7, adoptions=2)
    (cold,) = world.add(50_000, used=9)
    assert world.order() == [cold, hot_old, hot_new, running]


def test_reused_standing_has_a_soft_target() -> None:
    """[H3]: three quarters of the spare slots; older records fall back; a single newest one may exceed it."""
    world = World()
    for used in range(8):
        world.add(100, used=used, adoptions=1)
    assert find_reused(world.records, 8, 0) == {2, 3, 4, 5, 6, 7}
    assert find_reused(world.records, 1, 0) == frozenset(), "one spare slot is for whoever comes next"
    assert world.order(spare=8)[:2] == [Handle(0, 0), Handle(1, 0)]
    world.add(100, 200, 300, used=9, adoptions=1)
    assert find_reused(world.records, 2, 0) == {8}


def test_reused_standing_ends_when_only_others_come() -> None:
    """[H3]: however few reused records there are."""
    world = World()
    (gone,), (here,) = world.add(500, used=1, adoptions=3), world.add(10, used=2, adoptions=1)
    world.records[1].used_at = 1
    assert find_reused(world.records, 8, REUSED_USES - 1) == {0, 1}
    assert find_reused(world.records, 8, REUSED_USES) == {1}
    assert world.order(uses=REUSED_USES) == [gone, here]


def test_a_loss_fades_to_nothing_while_only_others_come() -> None:
    """[E3]: a long history that nobody asks for does not stand in the way of short ones for ever."""
    world = World()
    (large,), (small,) = world.add(8000, used=1), world.add(60, used=2)
    assert world.order() == [small, large]
    world.records[1].used_at = 10 * HALVING_USES
    assert world.order(uses=10 * HALVING_USES) == [large, small]
    assert fade(262_144, 19 * HALVING_USES) == 0
    assert fade(100, HALVING_USES - 1) == 100


def test_a_point_without_an_owner_goes_first() -> None:
    """[I1], SCHED-09: whatever a failed hand-over left behind."""
    world = World()
    (owned,) = world.add(1, used=1)
    lost, shared = Handle(7, 0), Handle(8, 0)
    actions = [
        DeleteAction(points, Amounts(state=1), 5, 0) for points in ((owned,), (lost,), tuple(sorted((owned, shared))))
    ]
    ranked = rank_actions(actions, Pool.STATE, world.owners, frozenset(), frozenset(), 0)
    assert [entry.standing for entry in ranked] == [Standing.UNOWNED, Standing.ORDINARY, Standing.ORDINARY]
    assert ranked[0].action.points == (lost,)


def test_what_must_stay_and_what_frees_nothing_is_no_candidate() -> None:
    """[I1], [I8]"""
    world = World()
    (own,), (other,) = world.add(10, used=1), world.add(500, used=2)
    assert world.order(frozenset((own,))) == [other]
    barren = [DeleteAction((own,), Amounts(state=1), 10, 0)]
    assert rank_actions(barren, Pool.MAIN_KV, world.owners, frozenset(), frozenset(), 0) == []


def test_a_joint_action_costs_all_its_holders() -> None:
    """[B7], [I1]: the highest standing counts, losses add up, aliases are no fallback for each other."""
    world = World()
    first_input, first_end = world.add(100, 150, used=1)
    (second,) = world.add(140, used=2, adoptions=1)
    joint = DeleteAction((first_input, first_end, second), Amounts(main_kv=4), 150, 0)
    reused = find_reused(world.records, 100, 0)
    (ranked,) = rank_actions([joint], Pool.MAIN_KV, world.owners, reused, frozenset(), 0)
    assert (ranked.standing, ranked.loss_tokens, ranked.useful) == (Standing.REUSED, 150 + 140, 4)
