"""Every page of every history has the same digest: nothing is found that tokens do not confirm ([D10])."""

from __future__ import annotations

import pytest

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import DIGEST_BYTES, PrefixDigests
from ninfer.base.pools import PAGE_TOKENS
from ninfer.sim.spec import draw_world
from ninfer.sim.world import World


@pytest.fixture
def colliding(monkeypatch: pytest.MonkeyPatch) -> None:
    def extend_to(digests: PrefixDigests, tokens: IntBuffer, frontier: int) -> None:
        missing = frontier // PAGE_TOKENS - digests.pages
        digests._digests.extend([bytes(DIGEST_BYTES)] * max(0, missing))

    monkeypatch.setattr(PrefixDigests, "extend_to", extend_to)


@pytest.mark.usefixtures("colliding")
@pytest.mark.parametrize("seed", [1, 2, 6, 11])
def test_a_world_of_collisions_says_the_same(seed: int) -> None:
    """[D10], V-15: tokens in closed form and content checks hold; prefixes that really agree are still found."""
    world = World(draw_world(seed))
    world.run()
    assert world.counts.requests
    assert world.counts.forks + world.counts.moves, "real prefixes are adopted all the same"
