"""/metrics and the watchdog: figures agree with the requests' records, and with what really happened (N1, OPS-01)."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ninfer.base.errors import RequestFailed
from ninfer.config.options import ServerOptions
from ninfer.server.watchdog import Watchdog, find_stack

from .clients import CHAT, Api, LiveServer, read_until, wait_until
from .scripted import Script, ScriptedEngine, whole
from .simulated import SimulatedEngine

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()


def read(text: str) -> dict[str, float]:
    """Samples by name and labels, as Prometheus reads them."""
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


def test_sums_over_requests_agree_with_their_records(api: Api, engine: ScriptedEngine) -> None:
    """[N1]: outcomes, paths, histograms; a refused request is an answer and no generation."""
    engine.script = Script(((b"a",), (b"b",), (b"c",)), cached_tokens=4)
    api.ask()
    api.stream()
    engine.script = Script(((b"x",),), error=RequestFailed("no"))
    api.stream()
    api.chat(temperature=9)
    seen = read(api.get("/metrics").text)
    records = api.journal.records
    assert seen[f"ninfer_http_requests_total{{route={CHAT},status=200}}"] == 3
    assert seen[f"ninfer_http_requests_total{{route={CHAT},status=400}}"] == 1
    assert seen["ninfer_requests_total{outcome=completed}"] == 2
    assert seen["ninfer_requests_total{outcome=failed}"] == 1
    assert seen["ninfer_restores_total{path=root}"] == 3
    assert seen["ninfer_ttft_seconds_count"] == 3
    gaps = [count for record in records for count in record.gap_counts or ()]
    assert seen["ninfer_gap_seconds_count"] == sum(gaps) == 4
    assert seen["ninfer_gap_seconds_sum"] == pytest.approx(sum(record.gaps_s or 0 for record in records))
    assert seen["ninfer_gap_seconds_bucket{le=+Inf}"] == 4
    assert seen["ninfer_phase{phase=ready}"] == 1
    assert len(records) == 4, "scrapes are not logged"


def test_every_family_is_described_and_every_described_one_is_there() -> None:
    """[N1], over the true engine: names of docs/metrics.md and of /metrics are the same."""
    engine = SimulatedEngine()
    engine.script = whole("hello")
    with Api(engine) as api:
        api.ask()
        text = api.get("/metrics").text
        seen = read(text)
    engine.close()
    families = {family.name + "_total" * (family.type == "counter") for family in text_string_to_metric_families(text)}
    assert families == set(re.findall(r"`(ninfer_\w+)", PAGE))
    assert seen["ninfer_prefill_tokens_total"] > 0
    assert seen["ninfer_replayed_tokens_total"] == 0
    assert seen["ninfer_output_tokens_total"] == 2
    pools = {label for label in seen if label.startswith("ninfer_pool_capacity")}
    for label in pools:
        pool = label[label.index("=") + 1 : -1]
        uses = [seen[f"ninfer_pool{{pool={pool},use={use}}}"] for use in ("free", "reserved", "held")]
        assert sum(uses) == seen[label]
    assert seen["ninfer_points{class=ordinary}"] > 0


def test_metrics_answer_in_every_phase_and_only_with_a_key(engine: ScriptedEngine) -> None:
    """OPS-01, OPS-04."""
    with Api(engine, ServerOptions(api_keys=("k",)), opened=False) as api:
        assert api.get("/metrics").status_code == 401
        answer = api.get("/metrics", headers={"authorization": "Bearer k"})
        assert read(answer.text)["ninfer_phase{phase=loading}"] == 1
        api.service.fail("gone")
        answer = api.get("/metrics", headers={"authorization": "Bearer k"})
        assert read(answer.text)["ninfer_phase{phase=failed}"] == 1


def test_the_watchdog_says_once_where_a_stuck_thread_stands(
    api: Api, engine: ScriptedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """V-16: a control thread without progress is noticed, counted and shown; so is its return."""
    dog = Watchdog(api.service)
    with caplog.at_level(logging.WARNING):
        dog.look()
        engine.idle_s = 1000.0
        for _ in range(5):
            dog.look()
        engine.idle_s = 0.0
        dog.look()
        dog.look()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "1000 s" in caplog.records[0].message
    assert read(api.get("/metrics").text)["ninfer_stalls_total"] == 1


def test_a_stack_is_found_by_the_threads_name() -> None:
    """Of all threads of that name: which engine of a process is stuck cannot be told from it."""
    stop = threading.Event()

    def rest() -> None:
        stop.wait(10)

    threads = [threading.Thread(target=wait, name="ninfer-test") for wait in (rest, lambda: stop.wait(10))]
    for thread in threads:
        thread.start()
    stack = "".join(find_stack("ninfer-test"))
    assert "in rest" in stack
    assert "in <lambda>" in stack
    stop.set()
    for thread in threads:
        thread.join()
    assert find_stack("ninfer-test") == []


def test_a_device_that_hangs_is_a_stall_that_health_and_metrics_tell(caplog: pytest.LogCaptureFixture) -> None:
    """OPS-01, V-16: over the true engine, whose control thread is stuck in a call; then it goes on."""
    engine = SimulatedEngine()
    engine.script = whole("fine")
    go_on = threading.Event()
    engine.before_submission = lambda: go_on.wait(20)
    options = ServerOptions(stall_timeout_s=1.0, ping_interval_s=0.05)  # a busy machine may be late by some tenths
    with LiveServer(engine, options) as server, server.connect() as connection:
        server.send_chat(connection, stream=True)
        wait_until(lambda: httpx2.get(server.url + "/health").status_code == 503)
        assert httpx2.get(server.url + "/health").json()["status"] == "stalled"
        wait_until(lambda: any("before_submission" in record.message for record in caplog.records))
        assert read(httpx2.get(server.url + "/metrics").text)["ninfer_phase{phase=stalled}"] == 1
        go_on.set()
        assert b"fine" in read_until(connection, b"[DONE]")
        assert httpx2.get(server.url + "/health").status_code == 200
    engine.close()
