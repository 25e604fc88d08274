"""Small traces through the true engine: everything said, counted and kept adds up, under each policy and order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ninfer.base.errors import BadInput
from ninfer.cli.main import run
from ninfer.cli.simulate import command
from ninfer.sim.replay.budget import split_budget
from ninfer.sim.replay.geometries import GEOMETRY_NAMES, find_geometry, image_bytes, page_bytes, prefill_flops
from ninfer.sim.replay.plot import hit_rate_by_turn
from ninfer.sim.replay.policies import Policy
from ninfer.sim.replay.run import Options, Order, Replay, replay
from ninfer.sim.replay.trace import Trace, TraceRequest, read_trace, tokens_of

DATA = Path(__file__).resolve().parents[2] / "data" / "replay"
GIB = 1 << 30
TIGHT = Options(device_bytes=6 * GIB, state_share=0.2, audit_every=1)


@pytest.fixture(scope="module")
def agents() -> Trace:
    return read_trace(DATA / "agents.jsonl")


@pytest.fixture(scope="module")
def hashes() -> Trace:
    return read_trace(DATA / "hashes.jsonl")


def check(done: Replay, trace: Trace) -> None:
    """Every request ended; what was reused and what was computed is its prompt."""
    report = done.report
    assert [one.request for one in done.ran] == list(trace.requests)
    for one in done.ran:
        assert one.started is not None and one.finished is not None
        usage, timings = one.finished.usage, one.finished.timings
        assert usage.completion_tokens == one.request.reply_tokens
        assert usage.prompt_tokens == one.request.prompt_tokens
        assert one.reused_tokens + timings.computed_prompt_tokens == one.request.prompt_tokens
        loss = one.started.loss
        assert one.reused_tokens == loss.chosen_point <= loss.deepest_point <= loss.deepest_token_match
    assert report.prompt_tokens == trace.prompt_tokens
    assert report.reused_tokens + report.prefill_tokens == report.prompt_tokens
    assert 0 <= report.used_points <= report.saved_points
    assert sum(report.evictions.values()) <= report.saved_points


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("order", list(Order))
def test_a_trace_is_served_whole_under_every_policy_and_order(agents: Trace, policy: Policy, order: Order) -> None:
    """[N1] settled decisions 1 and 14: with full recounts."""
    few = Trace(agents.name, agents.requests[:16] if order is Order.NOMINAL else agents.requests[:8])
    audit_every = 1 if order is Order.NOMINAL else 64
    done = replay(few, replace(TIGHT, policy=policy, order=order, audit_every=audit_every))
    check(done, few)
    assert (done.report.hit_rate == 0.0) == (policy is Policy.ROOT)
    assert (done.report.ttft is not None) == (order is Order.TIMED)


def longest_kept(requests: list[TraceRequest], wanted: TraceRequest) -> int:
    """The longest prefix that `wanted` shares with an earlier prompt and reply: no cache can reuse more."""
    tokens, longest = tokens_of(wanted.prompt), 0
    for other in requests:
        known = np.concatenate([tokens_of(other.prompt), tokens_of(other.reply)])
        length = min(len(known), len(tokens))
        different = np.nonzero(known[:length] != tokens[:length])[0]
        longest = max(longest, int(different[0]) if len(different) else length)
    return longest


@pytest.mark.parametrize("name", ["agents", "hashes"])
def test_reuse_stays_below_what_tokens_allow_and_room_brings_it_near(name: str) -> None:
    """[D10]: no request reuses more than it shares; with room for everything most of what is shared is reused."""
    trace = read_trace(DATA / f"{name}.jsonl")
    done = replay(trace, Options(device_bytes=32 * GIB, state_share=0.3))
    shared = 0
    for one in done.ran:
        most = longest_kept([other for other in trace.requests if other is not one.request], one.request)
        assert one.reused_tokens <= most
        earlier = [other for other in trace.requests if other.index < one.request.index]
        shared += longest_kept(earlier, one.request)
    assert done.report.reused_tokens > 0.85 * shared


def test_a_tighter_device_reuses_less_and_a_host_brings_it_back(agents: Trace) -> None:
    """[C2] [I6]"""
    roomy = replay(agents, replace(TIGHT, device_bytes=24 * GIB, audit_every=0)).report
    tight = replay(agents, replace(TIGHT, device_bytes=3 * GIB, audit_every=0)).report
    helped = replay(agents, replace(TIGHT, device_bytes=3 * GIB, host_bytes=32 * GIB, audit_every=0)).report
    assert tight.hit_rate < helped.hit_rate
    assert tight.hit_rate < roomy.hit_rate
    assert helped.to_host_bytes > 0 and helped.from_host_bytes > 0
    assert tight.to_host_bytes == 0


def test_the_same_replay_twice_says_the_same(hashes: Trace) -> None:
    first, second = (replay(hashes, TIGHT).report for _ in range(2))
    clocked = {"planning_ms_p50", "planning_ms_p99"}
    left, right = first.as_json(), second.as_json()
    assert {name: left[name] for name in left.keys() - clocked} == {
        name: right[name] for name in right.keys() - clocked
    }


def test_geometries_have_the_published_sizes() -> None:
    """[C1]: bytes of a token and a StateImage; the 4b's are those of the peers' measurement."""
    sizes = {name: (page_bytes(find_geometry(name)) // 64, image_bytes(find_geometry(name))) for name in GEOMETRY_NAMES}
    assert sizes["qwen3.5-4b"] == (32 * 1024, 51_516_416)
    assert sizes["qwen3.5-35b-a3b"][0] == 20 * 1024
    assert round(sizes["qwen3.5-35b-a3b"][1] / 2**20, 1) == 61.4
    four = find_geometry("qwen3.5-4b")
    whole = prefill_flops(four, 0, 8192)
    head = 2.0 * four.vocab_rows * four.hidden
    parts = prefill_flops(four, 0, 5000) + prefill_flops(four, 5000, 8192) - head
    assert whole == pytest.approx(parts)
    assert prefill_flops(four, 10, 10) == 0.0


def test_a_budget_lies_on_the_curve() -> None:
    """[C3]: 64 GiB of a 4b need 262,144 tokens; what has no place on the curve is refused with the numbers."""
    four = find_geometry("qwen3.5-4b")
    split = split_budget(four, device_bytes=64 * GIB, lanes=8, longest_tokens=81_000)
    assert split.max_context == 262_144
    assert split.slots * image_bytes(four) + split.pages * page_bytes(four) <= 64 * GIB
    assert split_budget(four, device_bytes=16 * GIB, lanes=8, longest_tokens=81_000).max_context == 131_072
    for wrong in ({"max_context": 65_536}, {"device_bytes": GIB}, {"max_context": 131_072, "device_bytes": 64 * GIB}):
        with pytest.raises(BadInput, match=r"\d"):
            split_budget(four, **{"device_bytes": 16 * GIB, "lanes": 8, "longest_tokens": 81_000, **wrong})


def test_the_command_prints_a_table_and_json(tmp_path: Path) -> None:
    path, plot = str(DATA / "hashes.jsonl"), tmp_path / "plot.svg"
    shown = CliRunner().invoke(command, [path, "--device-bytes", "6GiB", "--plot", str(plot)])
    assert shown.exit_code == 0
    assert "hit %" in shown.output
    assert plot.read_text().startswith("<svg")
    told = CliRunner().invoke(command, [path, "--device-bytes", "6GiB", "--json", "--policy", "lru"])
    report = json.loads(told.output)
    asked = {"requests", "prompt_tokens", "reused_tokens", "hit_rate", "prefill_flops", "planning_ms_p99"}
    assert asked <= report.keys()
    assert report["requests"] == 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--geometry", "qwen9"], "known are qwen3.5-0.8b"),
        (["--device-bytes", "1GiB"], "pages"),
        (["--device-bytes", "many"], "not a number of bytes"),
        (["--max-context", "64"], "longest request"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(DATA / "hashes.jsonl"), *words]) != 0
    error = capsys.readouterr().err
    assert said in error
    assert error.strip().count("\n") == 0


def test_a_picture_that_cannot_be_written_takes_no_report_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    """One line names option and path; the JSON of the whole replay is there."""
    words = ["--device-bytes", "6GiB", "--json", "--plot", "/nowhere/x.svg"]
    assert run(["simulate", str(DATA / "hashes.jsonl"), *words]) != 0
    out, error = capsys.readouterr()
    assert json.loads(out)["requests"] > 0
    assert "--plot: cannot write /nowhere/x.svg" in error


def test_hit_rate_by_turn_counts_tokens(hashes: Trace) -> None:
    done = replay(hashes, Options(device_bytes=16 * GIB), takes_samples=True)
    rates = hit_rate_by_turn(done.ran)
    assert rates[0] == 0.0
    assert all(0.0 <= rate <= 1.0 for rate in rates)
    assert len(done.samples) > 5
    for sample in done.samples:
        whole = sample.running_bytes + sample.reused_bytes + sample.ordinary_bytes + sample.free_bytes
        assert whole <= 16 * GIB
