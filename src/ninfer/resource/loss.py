"""What ending points costs: tokens to recompute against the fallback that really survives (I5).

Points stand at nodes of a tree of exact prefixes. A node is lost when all of its points are; it then costs the stretch
between its nearest shallower node and itself. Nested points are so counted once, aliases that end together are no
fallback for each other, and a deeper point is never the fallback of a shallower one (A2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ninfer.base.ids import Handle

from .continuation import History
from .demand import Position


@dataclass(slots=True, eq=False)
class _Node:
    position: Position
    history: History
    parent: _Node | None
    points: set[Handle] = field(default_factory=set)
    children: list[_Node] = field(default_factory=list)


class RestorePaths:
    """The tree of all living points. Costs of a change: the children of one node."""

    __slots__ = ("_changed", "_nodes", "_of_point", "_roots")

    def __init__(self) -> None:
        self._nodes: dict[Position, _Node] = {}
        self._of_point: dict[Handle, _Node] = {}
        self._roots: list[_Node] = []
        self._changed: set[Handle] = set()

    def take_changed(self) -> set[Handle]:
        """Points that have another fallback or other company than at the last call, ended ones included."""
        changed, self._changed = self._changed, set()
        return changed

    def __contains__(self, point: Handle) -> bool:
        return point in self._of_point

    def __len__(self) -> int:
        return len(self._of_point)

    def position(self, point: Handle) -> Position:
        """Where the point stands."""
        return self._of_point[point].position

    def publish(self, point: Handle, position: Position, history: History, shallower: Handle | None) -> None:
        """Add a point. `shallower`: a point of the deepest node that is an exact, shorter prefix, if there is one."""
        assert point not in self._of_point, f"point {point} stands in the tree already"
        node = self._nodes.get(position)
        if node is None:
            node = self._insert(position, history, None if shallower is None else self._of_point[shallower])
        node.points.add(point)
        self._of_point[point] = node
        self._changed |= node.points

    def retire(self, point: Handle) -> None:
        """Remove a point, and its node with the last one there; deeper nodes fall back further."""
        node = self._of_point.pop(point)
        self._changed |= node.points
        node.points.remove(point)
        if node.points:
            return
        del self._nodes[node.position]
        siblings = self._roots if node.parent is None else node.parent.children
        siblings.remove(node)
        for child in node.children:
            child.parent = node.parent
            siblings.append(child)
            self._changed |= child.points

    def restate(self, point: Handle, history: History) -> None:
        """Name the same prefix in another ledger, so that the old one can go."""
        self._of_point[point].history = history

    def loss_of(self, points: Iterable[Handle]) -> int:
        """Tokens to recompute more when these points end together."""
        ending: dict[Position, int] = {}
        nodes: dict[Position, _Node] = {}
        for point in points:
            node = self._of_point.get(point)
            if node is not None:
                ending[node.position] = ending.get(node.position, 0) + 1
                nodes[node.position] = node
        return sum(_stretch(nodes[at]) for at, count in ending.items() if count == len(nodes[at].points))

    def expected_loss(self, points: Iterable[Handle], weight_of: Callable[[Handle], float]) -> float:
        """Tokens to recompute more when these points end, each stretch as likely as a start that needs it.

        `weight_of`: how likely a point is what somebody starts from next. A start whose point ends falls back to the
        next shallower one, and further if that ends as well; what survives deeper does not need the stretch.
        """
        ending: dict[Position, list[Handle]] = {}
        for point in points:
            node = self._of_point.get(point)
            if node is not None:
                ending.setdefault(node.position, []).append(point)
        gone = [self._nodes[at] for at, mine in ending.items() if len(mine) == len(self._nodes[at].points)]
        gone.sort(key=lambda node: -node.position.frontier)
        passed_on: dict[Position, float] = {}
        loss = 0.0
        for node in gone:
            weight = passed_on.get(node.position, 0.0) + sum(map(weight_of, ending[node.position]))
            loss += weight * _stretch(node)
            if node.parent is not None:
                above = node.parent.position
                passed_on[above] = passed_on.get(above, 0.0) + weight
        return loss

    def audit(self) -> None:
        """Nodes, points and links agree; every parent is shallower (V-02)."""
        counted = {point: node for node in self._nodes.values() for point in node.points}
        assert counted == self._of_point, "V-02: points of the tree differ"
        for node in self._nodes.values():
            assert node.points, "V-02: an empty node was kept"
            siblings = self._roots if node.parent is None else node.parent.children
            assert siblings.count(node) == 1, "V-02: a node is not its parent's child"
            if node.parent is not None:
                assert self._nodes[node.parent.position] is node.parent, "V-02: the parent is no node"
                assert node.parent.position.frontier < node.position.frontier, "V-02: a parent is not shallower"
        assert sum(len(node.children) for node in self._nodes.values()) + len(self._roots) == len(self._nodes)

    def _insert(self, position: Position, history: History, parent: _Node | None) -> _Node:
        node = _Node(position, history, parent)
        siblings = self._roots if parent is None else parent.children
        deeper = [other for other in siblings if _lies_on(history, position.frontier, other)]
        for child in deeper:
            siblings.remove(child)
            child.parent = node
            self._changed |= child.points
        node.children = deeper
        siblings.append(node)
        self._nodes[position] = node
        return node


def _stretch(node: _Node) -> int:
    return node.position.frontier - (0 if node.parent is None else node.parent.position.frontier)


def _lies_on(history: History, frontier: int, other: _Node) -> bool:
    """Whether the first `frontier` tokens of `history` are a proper prefix of the other node."""
    if other.position.frontier <= frontier:
        return False
    return other.history.match(history.tokens, history.digests) >= frontier
