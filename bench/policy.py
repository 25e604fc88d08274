"""Policy on the control thread: choosing a source and planning reclaim for one admission, and a prefix look-up.

One thousand checkpoints of 500 conversations, prompts of 100k tokens that all begin with the same 20k, over a
device that answers at once. Every plan is carried out and asked for again until its gap is closed, and between two
admissions one of the conversations goes on, so that no answer is that of the time before. Times are those of the
thread's own work; the first plan, which finds everything for the first time, is a row of its own.
"""

from __future__ import annotations

import random
from statistics import median
from time import thread_time

from bench.store import InstantDevice
from bench.table import Row
from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import PrefixDigests
from ninfer.base.ids import Handle, LaneId, Ticket
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import PAGE_TOKENS, Pool
from ninfer.ports.native import Bound, CaptureRequest, PointKind, PrefillTurn, Prompt
from ninfer.program.program import Program
from ninfer.resource.admission import Claim, Right
from ninfer.resource.continuation import History, Use
from ninfer.resource.index import PrefixIndex
from ninfer.resource.manager import ResourceManager
from ninfer.resource.sources import SourceAsk, Wishes

CONVERSATIONS = 500
LOOKUP_TOKENS = 200_000
PROMPT_TOKENS = 100_000
SHARED_TOKENS = 20_000
ADMISSIONS = 100
IDENTITY = b"bench"


def measure() -> list[Row]:
    """All figures."""
    first_ms, *rest = _plan_admissions()
    planned = sorted(rest)
    lookup_ms = _lookup_ms()
    p50, p99 = median(planned), planned[int(len(planned) * 0.99)]
    return [
        Row("source and reclaim, 1,000 checkpoints, 100k, median", p50, "ms", "<= 2", p50 <= 2),
        Row("source and reclaim, 1,000 checkpoints, 100k, p99", p99, "ms", "<= 8", p99 <= 8),
        Row("the very first plan over 1,000 checkpoints", first_ms, "ms"),
        Row("prefix look-up of 200k tokens", lookup_ms, "ms", "<= 1", lookup_ms <= 1),
    ]


def _digested(tokens: list[int]) -> History:
    buffer, digests = IntBuffer(tokens), PrefixDigests(IDENTITY)
    digests.extend_to(buffer, len(tokens))
    return History(buffer, digests)


def _plan_admissions() -> list[float]:
    """Milliseconds of `list_sources` and `plan_room` for prompts that go on from one of the conversations."""
    chance = random.Random(1)
    tails = [PROMPT_TOKENS // 20 * chance.randint(1, 3) for _ in range(CONVERSATIONS)]
    pages = (CONVERSATIONS * SHARED_TOKENS + sum(tails)) // 64 + 4 * CONVERSATIONS
    program = Program(InstantDevice(2 * CONVERSATIONS + 10, pages))
    resources = ResourceManager(program, lane_count=8)
    shared = [index % 1000 for index in range(SHARED_TOKENS)]
    tails[0] = 0  # it leaves the point that all others start from
    prompts = [shared + [(7 * number + index) % 1000 for index in range(tail)] for number, tail in enumerate(tails)]
    for number, tokens in enumerate(prompts):
        _converse(program, resources, tokens, number)
    spent: list[float] = []
    for number in range(ADMISSIONS):
        which = chance.randrange(CONVERSATIONS)
        history = _digested((prompts[which] + [3] * PROMPT_TOKENS)[:PROMPT_TOKENS])
        prompt = Prompt(history.tokens, len(history.tokens), IDENTITY)
        ask = SourceAsk(prompt, history.digests, PROMPT_TOKENS, lambda at: at + 2048, ticket=Ticket(10_000 + number))
        began = thread_time()
        source = resources.list_sources(ask)[0]
        keep = frozenset(() if source.quote.checkpoint is None else (source.quote.checkpoint,))
        _make_room(program, resources, Claim(Right.ENTRY, keep, ask.ticket), chance.choice((1, 40, 200)))
        spent.append(1000 * (thread_time() - began))
        prompts[which] = prompts[which] + [5] * 640
        _free(program, resources, Pool.MAIN_KV, len(prompts[which]) // PAGE_TOKENS + 3)
        _free(program, resources, Pool.STATE, 3)
        _converse(program, resources, prompts[which], 20_000 + number)
    return spent


def _free(program: Program, resources: ResourceManager, pool: Pool, need: int) -> None:
    """So much is free for the next conversation."""
    gap = Shortfall(pool, need, program.occupancy().free[pool])
    assert gap.gap <= 0 or resources.reclaim(gap, Claim(Right.NECESSARY))


def _make_room(program: Program, resources: ResourceManager, claim: Claim, pages: int) -> None:
    """As an admission does: ask whether it can be done, then act and ask again for what is left."""
    for pool, amount in ((Pool.STATE, 1), (Pool.MAIN_KV, pages)):
        free = program.occupancy().free[pool]
        gap = Shortfall(pool, free + amount, free)
        assert resources.plan_room(gap, claim, may_copy=True) is not None
        assert resources.reclaim(gap, claim)


def _converse(program: Program, resources: ResourceManager, tokens: list[int], number: int) -> None:
    """One conversation leaves an input point and an endpoint."""
    history, ticket = _digested(tokens), Ticket(number)
    count, at = len(tokens), len(tokens) - 16
    prompt = Prompt(history.tokens, count, IDENTITY, execution_frontiers=(at,))
    ask = SourceAsk(prompt, history.digests, count, lambda _: count, ticket=ticket)
    source = resources.list_sources(ask)[0]
    bound = program.bind(source.quote, prompt, LaneId(0))
    assert isinstance(bound, Bound), bound
    record = resources.adopt(source, bound, history, ticket, own_resume=False, wishes=Wishes(at))
    program.poll()
    capture = CaptureRequest(at, PointKind.INPUT_POINT)
    assert program.reserve_capture(bound.sequence, capture, None) is None
    assert program.reserve_prefill(bound.sequence, count - bound.frontier) is None
    program.submit([], PrefillTurn(bound.sequence, count - bound.frontier, (capture,)))
    for progress in program.poll():
        for frontier, point in getattr(progress, "captured", ()):
            shared = frozenset({Use.SHARED}) if number == 0 else frozenset()
            resources.publish_captured(record, point, frontier, frozenset({Use.INPUT}) | shared)
    end = program.freeze_end(bound.sequence)
    resources.publish_end(record, end, program.point_frontier(end))
    resources.close(ticket)


def _lookup_ms() -> float:
    """A prompt whose only point lies at its front: every page is asked for."""
    history = _digested([index % 1000 for index in range(LOOKUP_TOKENS)])
    index = PrefixIndex()
    index.publish(Handle(0, 0), history.digests, 64)
    spent = []
    for _ in range(50):
        began = thread_time()
        assert len(list(index.find(history.digests, LOOKUP_TOKENS))) == 1
        spent.append(1000 * (thread_time() - began))
    return median(spent)
