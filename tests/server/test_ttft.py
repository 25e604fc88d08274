"""`ninfer ttft` against a live server: five parts that add up, a picture, and errors that are counted (N1)."""

from __future__ import annotations

import json
import socket
import threading
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from ninfer.base.errors import RequestFailed
from ninfer.cli.load.client import ChatClient, Seen
from ninfer.cli.load.drive import Sample
from ninfer.cli.load.script import RETRY, LoadShape, Question, list_conversations
from ninfer.cli.load.totals import describe, sum_up
from ninfer.cli.main import run
from ninfer.config.options import ServerOptions

from .clients import LiveServer
from .scripted import Script, ScriptedEngine, whole
from .simulated import SimulatedEngine

LOAD = ("--conversations", "3", "--turns", "2", "--first-words", "30", "--next-words", "8", "--concurrency", "2")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["ttft", *LOAD, "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_the_parts_add_up_over_the_true_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """[N1]: outcome, hits and real work, transfers, preemption and latency are told apart, per request and in total."""
    engine = SimulatedEngine()
    engine.script = whole("a short answer")
    with LiveServer(engine) as server:
        code, told = report(capsys, "--url", server.url, "--concurrency", "1")
    engine.close()
    assert code == 0
    requests, total = told["requests"], told["total"]
    assert len(requests) == total["outcome"]["completed"] == 3 * 3
    assert set(total) == {"outcome", "work", "transfers", "preemption", "latency"} < set(requests[0])
    for row in requests:
        work = row["work"]
        assert work["cached_tokens"] + work["computed_tokens"] == work["prompt_tokens"]
        assert row["latency"]["ttft_s"] <= row["latency"]["total_s"]
    assert total["work"]["computed_tokens"] == sum(row["work"]["computed_tokens"] for row in requests)
    assert {row["work"]["restore_path"] for row in requests if row["kind"] == RETRY} == {"recovery_point"}
    captured = sum(row["transfers"]["captures"] for row in requests)
    assert total["transfers"]["engine"]["captures"] == total["transfers"]["captures"] == captured > 0
    assert set(total["latency"]["ttft_s"]) == {"first", "next", "retry"}


def test_a_failed_request_is_counted_and_told_by_the_exit_status(
    live: LiveServer, engine: ScriptedEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The conversation ends there; others go on; table and picture can show it."""
    engine.script = lambda _plan: (
        Script(((b"x",),), error=RequestFailed("no")) if len(engine.requests) == 2 else whole("y")
    )
    picture = tmp_path / "run.svg"
    code, told = report(capsys, "--url", live.url, "--plot", str(picture))
    assert code == 1
    assert told["total"]["outcome"]["errors"] == {"internal_error": 1}
    assert told["total"]["outcome"]["requests"] < 9
    drawn = ET.fromstring(picture.read_text())
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    rows = [node.text or "" for node in drawn.iter() if (node.text or "").startswith("conversation")]
    assert len(rows) == told["total"]["outcome"]["requests"]
    engine.script = whole("y")
    assert run(["ttft", *LOAD, "--url", live.url]) == 0
    table = capsys.readouterr().out
    for part in told["total"]:
        assert part in table
    code, told = report(capsys, "--url", live.url, "--plot", str(tmp_path / "nowhere" / "run.svg"))
    assert (code, told["total"]["outcome"]["requests"]) == (1, 9), "the report is there without its picture"


def test_keys_are_used_and_a_missing_server_is_one_line(
    engine: ScriptedEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    with LiveServer(engine, ServerOptions(api_keys=("secret",))) as server:
        assert report(capsys, "--url", server.url, "--api-key-file", str(keys))[0] == 0
        assert run(["ttft", *LOAD, "--url", server.url]) == 1
        assert "no server answers" in capsys.readouterr().err
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        assert run(["ttft", *LOAD, "--url", f"http://127.0.0.1:{probe.getsockname()[1]}"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_what_hides_behind_a_good_figure_stands_beside_it() -> None:
    """[N3]: a full hit with much copying, and a quick first token before a long gap, both show as what they are."""
    question = Question(1, 2, "next", ())
    usage = {"prompt_tokens": 1000, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1000}}
    timings = {"restored_bytes": 10**9, "replayed_tokens": 700, "pauses": 1, "paused_s": 4.0, "captures": 0}
    seen = Seen(0.0, [0.01, 5.0], 5.1, "ab", finish="stop", usage=usage, timings=timings)
    row = describe(Sample(question, seen))
    assert (row["work"]["cached_tokens"], row["transfers"]["restored_bytes"]) == (1000, 10**9)
    assert (row["latency"]["ttft_s"], row["latency"]["longest_gap_s"]) == (0.01, 4.99)
    total = sum_up([Sample(question, seen)], None)
    assert total["work"]["hit_rate"] == 1.0
    assert total["transfers"]["restored_bytes"] == 10**9
    assert total["preemption"] == {"pauses": 1, "snapshots": 0, "paused_s": 4.0, "replayed_tokens": 700}
    assert total["latency"]["longest_gap_s"]["next"]["most"] == 4.99


def test_the_load_is_a_function_of_its_seed_and_the_answers() -> None:
    def play(seed: int) -> list[Any]:
        asked = []
        for conversation in list_conversations(LoadShape(conversations=2, turns=3, seed=seed)):
            while (question := conversation.next_question()) is not None:
                asked.append((question.name, question.messages))
                conversation.note_answer({"role": "assistant", "content": f"answer {question.turn}"})
        return asked

    assert play(1) == play(1) != play(2)
    names = [name for name, _ in play(1)]
    assert names[:4] == [
        "conversation 1, turn 1",
        "conversation 1, turn 2",
        "conversation 1, turn 3",
        "conversation 1, retry",
    ]
    history = [messages for _, messages in play(1)]
    assert history[3] == history[2], "the retry sends the last input again"
    assert history[1][: len(history[0])] == history[0]


@pytest.mark.parametrize("reset", [False, True])
def test_a_stream_that_is_cut_is_an_error(reset: bool) -> None:
    """Closed in order, or reset because the server had not read all of the request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            while b'"messages"' not in connection.recv(65536, socket.MSG_PEEK if reset else 0):
                pass
            connection.sendall(b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {"choices":[]}\n\n')
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        seen = ChatClient(f"http://127.0.0.1:{listener.getsockname()[1]}").ask({"messages": []})
        thread.join()
    assert seen.error == "stream_cut"
