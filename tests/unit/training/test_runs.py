"""A run in parts: it starts, saves, goes on where it stopped, and what it writes loads in the engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from ninfer import Engine  # noqa: E402
from training.train import (  # noqa: E402
    POLISH,
    READ_LATER,
    SCHEDULE,
    mix_at,
    rate_at,
    read_share,
    saved_progress,
)

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "src" / "ninfer" / "bundled_model"
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the bundled model's, with a smaller shape and no weights."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(MODEL / name, folder / name)
    config = json.loads((MODEL / "config.json").read_text()) | SMALL
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def part(model: Path, out: Path, *more: str) -> str:
    command = [sys.executable, "-m", "training.train", "--cpu", "--model", str(model), "--out", str(out), *more]
    small = ["--tokens", "512", "--workers", "1", "--longest", "256", "--minutes", "0.02"]
    done = subprocess.run([*command, *small], cwd=ROOT, check=True, capture_output=True, text=True, timeout=240)
    return done.stdout


def test_a_run_stops_goes_on_and_loads_in_the_engine(small: Path, tmp_path: Path) -> None:
    assert "part" in part(small, tmp_path, "--stop-in", "0.01")
    first = saved_progress(tmp_path)
    assert first[0] == 0.0
    (tmp_path / "optimiser.pt").unlink()  # a machine that got the weights only
    assert "done" in part(small, tmp_path)
    elapsed, steps = saved_progress(tmp_path)
    assert elapsed >= 1.2 and steps > first[1]
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(small / name, tmp_path / name)
    with Engine(tmp_path) as engine:
        engine.submit([{"role": "user", "content": "Hello!"}], temperature=0.0, max_tokens=3).text()


def test_schedule_covers_all_time_and_grows() -> None:
    for schedule in (SCHEDULE, POLISH):
        assert [end for end, _ in schedule] == sorted(end for end, _ in schedule)
        assert all(abs(sum(mix.values()) - 1.0) < 1e-9 for _, mix in schedule)
        assert mix_at(schedule, 1.0, 8192) == schedule[-1][1]
    longest = [max(mix_at(SCHEDULE, share / 100, 8192)) for share in range(100)]
    assert longest == sorted(longest) and longest[0] == 256 and longest[-1] == 8192
    assert max(mix_at(SCHEDULE, 0.99, 1024)) == 1024


def test_rates_rise_fall_and_never_vanish() -> None:
    rates = [rate_at(share / 1000, 1.0) for share in range(1001)]
    top = rates.index(max(rates))
    assert rates[:top] == sorted(rates[:top]) and rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(0.01)
    assert read_share(0.0) == 1.0 and read_share(1.0) == pytest.approx(READ_LATER)


@pytest.mark.parametrize("module", ["export", "tokenizer"])
def test_what_is_there_is_never_replaced_by_accident(module: str) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in MODEL.iterdir()}
    for more in ([], ["--out", str(MODEL)]):
        command = [sys.executable, "-m", f"training.{module}", *more]
        assert subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240, check=False).returncode == 2
    assert {path.name: path.stat().st_mtime_ns for path in MODEL.iterdir()} == before
