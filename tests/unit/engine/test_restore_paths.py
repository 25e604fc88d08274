"""Where an execution began, as it is told: each kind of restore point has its own word."""

from __future__ import annotations

from dataclasses import replace

from sim_engine import GREEDY, Caller, SimEngine, filler, make_plan

from ninfer.ports.output import RestorePath


def ask(engine: SimEngine, prompt: list[int], *, shared: int | None = None, anchor: int | None = None) -> Caller:
    """With a marker at `shared`, a private anchor at `anchor`, and the input point at the end."""
    caller = Caller(prompt, GREEDY)
    marks = {"shared_markers": shared, "anchors": anchor}
    given = {name: (at,) for name, at in marks.items() if at is not None}
    plan = replace(make_plan(prompt), execution_frontiers=tuple(at for (at,) in given.values()), **given)
    caller.handle = engine.core.submit(plan, GREEDY, max_tokens=4, sink=caller.events.append)
    engine.run()
    caller.check_output()
    return caller


def test_each_kind_of_point_has_its_word() -> None:
    """[N1], [D11]: a public entry, an anchor, an input point, an endpoint and the root are told apart."""
    engine = SimEngine(lanes=1, slots=8)
    begin = filler(100, 1)
    first = ask(engine, begin + filler(60, 2), shared=100)
    assert (first.start.restore_path, first.start.cached_tokens) == (RestorePath.ROOT, 0)
    public = ask(engine, begin + filler(60, 3))
    assert (public.start.restore_path, public.start.cached_tokens) == (RestorePath.SHARED, 100)
    again = ask(engine, first.prompt)
    assert (again.start.restore_path, again.start.cached_tokens) == (RestorePath.INPUT_POINT, 160)
    onward = ask(engine, again.prompt + again.tokens + [7])
    assert onward.start.restore_path is RestorePath.END

    own = filler(200, 4)
    ask(engine, own, anchor=120)
    anchored = ask(engine, own[:120] + filler(30, 5))
    assert (anchored.start.restore_path, anchored.start.cached_tokens) == (RestorePath.ANCHOR, 120)
