"""What a world is, and how one is drawn from a seed: tight pools, a crowd of callers, a host arena or none, faults."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ninfer.base.pools import PAGE_TOKENS, Pool

from .device import SIM_PAGE_BYTES, SIM_STATE_BYTES
from .faults import FaultPlan, draw_faults
from .script import MAX_RUN_TOKENS
from .workload import WorkloadSpec, draw_workload

PACE_SHARE = 1.0
"""Part of a world's cycles that its work would take if nothing were paused, replayed or refused."""


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """Everything about a world but its callers' dice. `cycles`: after so many everybody who is left is cancelled."""

    seed: int
    cycles: int
    lanes: int
    slots: int
    pages: dict[Pool, int]
    max_context: int
    chunk_tokens: int
    longest_run: int
    host_bytes: int
    max_queue: int
    keeps_points: bool
    check_every: int
    """Every token of a lane's pages is compared once in so many units."""
    audit_every: int
    """Cycles from one audit to the next."""
    workload: WorkloadSpec
    faults: FaultPlan
    max_gap_s: float | None = None
    runs_ahead: bool = False
    feeds_draws: bool = False
    """Launches ahead follow their draw at once, unread."""


def draw_world(seed: int) -> WorldSpec:
    """1 to 8 lanes, 16 to 400 pages, 100 to 600 cycles; most worlds reclaim and many pause."""
    chance = random.Random(f"world {seed}")
    lanes = chance.choice((1, 2, 3, 4, 4, 5, 6, 7, 8))
    most_pages = chance.choice((24, 24, 48, 48, 100, 100, 200, 400))
    pages = chance.randint(16, most_pages)
    max_context = max(256, int(pages * PAGE_TOKENS * chance.choice((0.3, 0.6, 1.0))))
    cycles = chance.randint(100, 600)
    faults = draw_faults(chance, cycles)
    pools = {Pool.MAIN_KV: pages}
    for drafter in chance.choice(((), (), (Pool.MTP_KV,), (Pool.DFLASH_KV,), (), (Pool.MTP_KV, Pool.DFLASH_KV))):
        pools[drafter] = chance.randint(-(-max_context // PAGE_TOKENS), pages + 2)
    longest_run = chance.choice((1, MAX_RUN_TOKENS))
    units = PACE_SHARE * cycles / (1 + faults.delay_polls / 2)
    workload = draw_workload(
        chance,
        lanes=lanes,
        mean_run=(1 + longest_run) / 2,
        pool_tokens=min(pools.values()) * PAGE_TOKENS,
        max_context=max_context,
        cycles=cycles,
        units=units,
        cancelled_share=faults.cancelled_share,
    )
    prompts_tokens = workload.requests * workload.mean_prompt_tokens
    chunks = [chunk for chunk in (64, 128, 256, 512) if prompts_tokens / chunk < units / 2] or [512]
    return WorldSpec(
        seed=seed,
        cycles=cycles,
        lanes=lanes,
        slots=lanes + chance.choice((0, 0, 1, 2, lanes, 16)),
        pages=pools,
        max_context=max_context,
        chunk_tokens=chance.choice(chunks),
        max_gap_s=chance.choice((None, None, 0.002, 0.02)),
        longest_run=longest_run,
        host_bytes=_draw_host(chance, lanes, pages),
        max_queue=chance.choice((4, 64, 64, 64)),
        keeps_points=chance.random() < 0.95,
        check_every=chance.choice((1, 4, 16)),
        audit_every=1,
        runs_ahead=(ahead := random.Random(f"ahead {seed}").random()) < 0.5,
        feeds_draws=ahead < 0.3,
        workload=workload,
        faults=faults,
    )


def _draw_host(chance: random.Random, lanes: int, pages: int) -> int:
    """None, room for a few blocks, for about a device full, or for several."""
    images, blocks = chance.choice(((0, 0), (1, 2), (lanes, pages // 4), (2 * lanes, pages), (8 * lanes, 4 * pages)))
    return images * SIM_STATE_BYTES + blocks * SIM_PAGE_BYTES
