"""Every world of at most four checkpoints over three histories, up to renaming, and the naive reading of the rules.

A history is a row of labels, one a level; histories that share a label share everything before it. A checkpoint stands
at a level of a history and is owned by the record of that history, by a shared entry of its own, or by both. Nothing
here uses the code under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LEVEL_TOKENS = (70, 200, 265)
"""Frontiers of the levels: uneven, so that pages and tokens do not go together."""

PAGE = 64

_SHARED_FIRST = ((0, 0, 0), (0, 0, 1), (0, 1, 2))
CHAINS = tuple(tuple(zip(first, second, (0, 1, 2), strict=True)) for first in _SHARED_FIRST for second in _SHARED_FIRST)
"""How three histories share their first levels; a label counts together with all before it."""

USES = ("private", "public", "both")


@dataclass(frozen=True)
class Spot:
    """A checkpoint: history, level, use."""

    history: int
    level: int
    use: str


@dataclass(frozen=True)
class Owner:
    """A record (`spots` of one history) or a shared entry (one spot)."""

    name: tuple[str, int]
    spots: tuple[int, ...]
    is_public: bool


@dataclass(frozen=True)
class World:
    """`labels[history][level]`. `demand[i]`: order of the last demand of owner i, 0: none; `proven[i]`: its level."""

    labels: tuple[tuple[int, ...], ...]
    spots: tuple[Spot, ...]
    owners: tuple[Owner, ...]
    demand: tuple[int, ...]
    proven: tuple[int, ...]

    def path(self, spot: int) -> tuple[int, ...]:
        """Labels from the root to the checkpoint: equal paths are equal tokens."""
        at = self.spots[spot]
        return self.labels[at.history][: at.level + 1]


def list_owners(spots: Sequence[Spot]) -> tuple[Owner, ...]:
    owners: list[Owner] = []
    for history in range(3):
        mine = tuple(i for i, spot in enumerate(spots) if spot.history == history and spot.use != "public")
        if mine:
            owners.append(Owner(("record", history), mine, False))
    owners += [Owner(("entry", i), (i,), True) for i, spot in enumerate(spots) if spot.use != "private"]
    return tuple(owners)


def list_structures(most: int) -> Iterator[tuple[tuple[tuple[int, ...], ...], tuple[Spot, ...]]]:
    """Labels and checkpoints, one of each class under renaming of histories; one of up to three has both uses."""
    cells = [Spot(history, level, use) for history in range(3) for level in range(3) for use in USES]
    seen: set[object] = set()
    for labels in CHAINS:
        for count in range(1, most + 1):
            for spots in itertools.combinations_with_replacement(cells, count):
                if sum(spot.use == "both" for spot in spots) > (count < 4):
                    continue
                key = canonical(labels, spots)
                if key not in seen:
                    seen.add(key)
                    yield labels, spots


def list_worlds(labels: tuple[tuple[int, ...], ...], spots: tuple[Spot, ...]) -> Iterator[World]:
    """The structure with every pattern of demand."""
    owners = list_owners(spots)
    for demand in list_demands(len(owners)):
        yield World(labels, spots, owners, demand, find_proven(spots, owners, demand))


def canonical(labels: tuple[tuple[int, ...], ...], spots: Sequence[Spot]) -> object:
    """The least description over all renamings of the histories."""
    forms = []
    for names in itertools.permutations(range(3)):
        order = sorted(range(3), key=lambda history: names[history])
        rows = [labels[history] for history in order]
        shape = []
        for level in range(3):
            known: dict[tuple[int, ...], int] = {}
            shape.append(tuple(known.setdefault(row[: level + 1], len(known)) for row in rows))
        moved = tuple(sorted((names[spot.history], spot.level, spot.use) for spot in spots))
        forms.append((tuple(shape), moved))
    return min(forms)


def list_demands(owners: int) -> Iterator[tuple[int, ...]]:
    """Nobody, everybody in one order and in the other, and every second one, either way."""
    patterns = [(0,) * owners, tuple(range(1, owners + 1)), tuple(range(owners, 0, -1))]
    patterns += [tuple(index % 2 for index in range(owners)), tuple(1 - index % 2 for index in range(owners))]
    yield from dict.fromkeys(patterns)


def find_proven(spots: Sequence[Spot], owners: Sequence[Owner], demand: Sequence[int]) -> tuple[int, ...]:
    """The deepest level of an owner with demand of even order, else its shallowest."""
    levels = [[spots[i].level for i in owner.spots] for owner in owners]
    return tuple(max(mine) if order % 2 == 0 else min(mine) for mine, order in zip(levels, demand, strict=True))


def naive_loss(world: World, gone: frozenset[int]) -> int:
    """Levels to compute again, each history for itself: a place where nothing survives falls back to what is before it.

    Nested places are counted once: what the shallower one loses is not lost again by the deeper. Siblings are: without
    a state at their fork neither can start from the other (A2).
    """
    everything = {world.path(i) for i in range(len(world.spots))}
    survivors = {world.path(i) for i in range(len(world.spots)) if i not in gone}
    lost: set[tuple[tuple[int, ...], int]] = set()
    for place in everything - survivors:
        for level in range(len(place) - 1, -1, -1):
            if level < len(place) - 1 and place[: level + 1] in everything:
                break
            lost.add((place, level))
    return sum(LEVEL_TOKENS[level] - (LEVEL_TOKENS[level - 1] if level else 0) for _, level in lost)


def naive_pages(world: World, spots: frozenset[int]) -> int:
    """Pages that checkpoints of these histories keep: a page is one with all tokens before it; nothing is copied."""
    pages: set[tuple[object, int]] = set()
    for i in spots:
        path, tokens = world.path(i), LEVEL_TOKENS[world.spots[i].level]
        for page in range(-(-tokens // PAGE)):
            last = min(tokens, (page + 1) * PAGE)
            level = next(number for number, reach in enumerate(LEVEL_TOKENS) if reach >= last)
            pages.add((path[: level + 1], page))
    return len(pages)


def naive_order(world: World, gone: frozenset[int], useful: int, used: Sequence[int]) -> tuple[float, ...]:
    """Where an action stands in the source's order: class, then loss per use and age, or age of demand (I3, I4)."""
    newest = 0
    for index, owner in enumerate(world.owners):
        mine = gone.intersection(owner.spots)
        if not mine or not world.demand[index]:
            continue
        shallowest = min(world.spots[i].level for i in mine)
        rest = [world.spots[i].level for i in owner.spots if i not in gone]
        covered = any(world.proven[index] <= level < shallowest for level in rest)
        if owner.is_public or not covered:
            newest = max(newest, world.demand[index])
    touched = [index for index, owner in enumerate(world.owners) if gone.intersection(owner.spots)]
    age = max(used[index] for index in touched)
    if newest:
        return (1, newest, naive_loss(world, gone))
    return (0, naive_loss(world, gone) / useful, age)
