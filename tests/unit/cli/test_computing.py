"""The commands that compute, on a tiny model: generate, chat, serve."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer.cli import generate as generating
from ninfer.cli.main import run
from ninfer.ports.output import Event, OutputDelta

DENSE = Path(__file__).resolve().parents[2] / "data" / "fixtures" / "dense_text"
PROMPT_IDS = "[1, 2, 3, 4, 5]"


def generate(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    options = ["--dtype", "float32", "--max-concurrency", "1", "--json"]
    assert run(["generate", str(DENSE), *options, *arguments]) == 0
    out, err = capsys.readouterr()
    assert "loading" in err, "progress goes to stderr"
    report: dict[str, object] = json.loads(out)
    return report


def test_generate_prints_what_scripts_read(capsys: pytest.CaptureFixture[str]) -> None:
    golden = json.loads((DENSE / "golden.json").read_text())
    arguments = ["--prompt", golden["prompt"], "--max-tokens", "8", "--temperature", "0", "--ignore-eos"]
    report = generate(capsys, *arguments)
    assert list(report) == ["prompt_tokens", "output_ids", "text", "finish_reason", "cached_tokens", "timings"]
    assert report["prompt_tokens"] == golden["prompt_tokens"]
    assert report["output_ids"] == golden["greedy_ids"][:8]
    assert (report["finish_reason"], report["cached_tokens"]) == ("length", 0)
    assert report["timings"]["restore_path"] == "root"  # type: ignore[index]


def test_generate_takes_ids_chat_and_seed(capsys: pytest.CaptureFixture[str]) -> None:
    by_ids = generate(capsys, "--ids", PROMPT_IDS, "--max-tokens", "4", "--temperature", "1", "--seed", "7")
    assert by_ids["prompt_tokens"] == 5
    again = generate(capsys, "--ids", PROMPT_IDS, "--max-tokens", "4", "--temperature", "1", "--seed", "7")
    assert again["output_ids"] == by_ids["output_ids"]
    by_chat = generate(capsys, "--chat", "Hello", "--max-tokens", "2", "--think")
    assert by_chat["prompt_tokens"]
    assert list(by_chat)[-2:] == ["reasoning", "content"]


def test_top_p_zero_takes_the_best_token(capsys: pytest.CaptureFixture[str]) -> None:
    """As over HTTP."""
    best = generate(capsys, "--ids", PROMPT_IDS, "--max-tokens", "4", "--temperature", "0")
    drawn = generate(capsys, "--ids", PROMPT_IDS, "--max-tokens", "4", "--temperature", "1", "--top-p", "0")
    assert drawn["output_ids"] == best["output_ids"]


def test_ctrl_c_during_decode_is_no_success(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """130, what there is on stdout, one line on stderr."""
    real = generating.listen

    def interrupted(*given: Any, **settings: Any) -> Iterator[Event]:
        pressed = False
        for event in real(*given, **settings):
            if isinstance(event, OutputDelta) and not pressed:
                pressed = True
                os.kill(os.getpid(), signal.SIGINT)
            yield event

    monkeypatch.setattr(generating, "listen", interrupted)
    arguments = ["--ids", PROMPT_IDS, "--max-tokens", "400", "--ignore-eos", "--json", "--max-concurrency", "1"]
    assert run(["generate", str(DENSE), *arguments]) == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["finish_reason"] == "cancelled"
    assert err.splitlines()[-1] == "ninfer: interrupted, the output is cut short"


@pytest.mark.parametrize(
    ("arguments", "word", "code"),
    [
        (["--ids", "[1, 99999]"], "token id 99999", 1),
        (["--prompt", "word " * 5000], "maximum context length", 1),
        (["--prompt", "x", "--device", "cuda"], "--device cuda", 2),
        (["--prompt", "x", "--host-capacity-bytes", "1000000GiB"], "--host-capacity-bytes", 2),
        (["--prompt", "x", "--temperature", "nan"], "--temperature", 2),
        (["--prompt", "x", "--top-p", "nan"], "--top-p", 2),
        (["--prompt", "x", "--stop", ""], "--stop", 2),
    ],
)
def test_what_cannot_be_generated_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], word: str, code: int
) -> None:
    """An option's value at fault, not-a-number included: 2; the input itself: 1."""
    assert run(["generate", str(DENSE), "--max-concurrency", "1", *arguments]) == code
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("ninfer")
    assert word in line


def test_chat_over_pipes() -> None:
    """No terminal: no prompt sign; answers alone on stdout; reuse after each answer on stderr."""
    lines = [
        "/help",
        "/system Be brief.",
        "Hello",
        "/regen",
        "And now?",
        "/undo",
        "/think on",
        "Why?",
        "/bogus",
        "/quit",
        "x",
    ]
    command = [
        sys.executable,
        "-m",
        "ninfer",
        "chat",
        str(DENSE),
        "--max-tokens",
        "12",
        "--temperature",
        "1",
        "--seed",
        "1",
    ]
    done = subprocess.run(
        [*command, "--dtype", "float32", "--max-concurrency", "1"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert ">" not in done.stderr.split("loading")[0]
    assert done.stderr.count("prompt tokens reused") == 4, "four questions were answered"
    for word in (
        "/regen",
        "the system prompt is set",
        "1 exchange is left",
        "thinking is on",
        "/bogus is not a command",
    ):
        assert word in done.stderr
    assert "reused" not in done.stdout
    assert "system prompt" not in done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_serve_from_start_to_drain(tmp_path: Path) -> None:
    """One address line on stderr, health while loading, one JSON line a request, exit 0 after SIGTERM; the port of a
    running server is refused with one line."""
    port, log = free_port(), tmp_path / "requests.jsonl"
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "NINFER_API_KEYS": "sk-serve-test-key",
        "NINFER_PORT": str(port),
    }
    options = ["--request-log", str(log), "--served-model-name", "a", "--served-model-name", "b/c"]
    command = [sys.executable, "-m", "ninfer", "serve", str(DENSE), "--dtype", "float32", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_for_health(port)
        assert "sk-serve" not in Path(f"/proc/{server.pid}/cmdline").read_text()
        body = {"messages": [{"role": "user", "content": "SECRET"}], "max_tokens": 3, "model": "b/c"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"authorization": "Bearer sk-serve-test-key"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["model"] == "b/c"
        second = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
        assert (second.returncode, second.stdout) == (1, "")
        assert second.stderr.count("\n") == 1
        assert str(port) in second.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=30)
    assert server.returncode == 0
    assert out == ""
    assert err.count(f"http://127.0.0.1:{port}") == 1
    assert err.count("draining, no requests in flight; a second signal stops at once") == 1
    assert "SECRET" not in err
    assert "sk-serve" not in err
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["finish"] in ("length", "stop")


def wait_for_health(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server was not ready in time")


def test_a_model_that_cannot_be_served_ends_serve_with_one_line(tmp_path: Path) -> None:
    """An incomplete directory: the reason is the last line, the exit code 1."""
    (tmp_path / "config.json").write_bytes((DENSE / "config.json").read_bytes())
    command = [sys.executable, "-m", "ninfer", "serve", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("ninfer: error: ")
    assert "tokenizer.json" in done.stderr
