"""One-byte KV pages through the device's port and the command line: sizes, bounded error, another identity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cpu_driver import FIXTURES, Sequence_, decode, open_fixture, prefill_golden, read_golden
from torch import Tensor

from ninfer.base.pools import Pool
from ninfer.build.assemble import execution_identity
from ninfer.cli.main import run
from ninfer.config.geometry import read_geometry
from ninfer.device.cpu import CpuDevice

FORMATS = ["fp8", "int8"]


def tail_rows(device: CpuDevice, name: str) -> Tensor:
    """Final-normed rows after a prompt in two chunks and after each of eight decode steps, the golden's tokens fed."""
    golden = read_golden(name)
    sequence = Sequence_(device, 0, 1, [3, 5, 2, 4], golden.rope_delta)
    prefill_golden(sequence, golden, [golden.chunk_split, len(golden.prompt_ids)])
    rows = [device.arena.states.tail[1].clone()]
    for token in golden.greedy_ids[:8]:
        decode([sequence], [token])
        rows.append(device.arena.states.tail[1].clone())
    return torch.stack(rows)


@pytest.mark.parametrize("name", ["dense_text", "moe_text", "dense_vision"])
@pytest.mark.parametrize(("kv_dtype", "bound"), [("int8", 0.02), ("fp8", 0.06)])
def test_hidden_rows_stay_near_those_of_unrounded_pages(name: str, kv_dtype: str, bound: float) -> None:
    """[issue E 4] ||row - row of FP32 pages|| <= bound * ||row||, and not equal: the pages were used."""
    want, got = (tail_rows(open_fixture(name, kv_dtype=kv), name) for kv in ("auto", kv_dtype))
    error = float((got - want).norm() / want.norm())
    assert 0 < error <= bound


@pytest.mark.parametrize("kv_dtype", FORMATS)
@pytest.mark.parametrize("name", ["dense_text", "moe_text"])
def test_the_format_is_part_of_the_identity_and_of_the_plan(name: str, kv_dtype: str) -> None:
    """[decision 19] [C1]: other numbers, so pages of one are never taken for the other's."""
    plain, scaled = open_fixture(name, "bfloat16"), open_fixture(name, "bfloat16", kv_dtype=kv_dtype)
    identities = {execution_identity(device, FIXTURES / name) for device in (plain, scaled)}
    assert len(identities) == 2
    width = plain.geometry.attention.head_dim
    ratio = scaled.facts.page_bytes[Pool.MAIN_KV] / plain.facts.page_bytes[Pool.MAIN_KV]
    assert ratio == (width + 4) / (2 * width)
    assert scaled.plan.report()["kv_dtype"] == kv_dtype
    assert plain.plan.report()["kv_dtype"] == "bfloat16"
    assert scaled.facts.state_bytes == plain.facts.state_bytes
    gathered = 2 * plain.geometry.attention.kv_heads * width * scaled.layout.max_context
    assert scaled.layout.workspace_bytes == plain.layout.workspace_bytes + 5 * gathered, "rounded and FP32 copies"


def test_fp8_and_int8_are_two_formats() -> None:
    """Pages of one size, but not of one meaning."""
    name = "dense_text"
    assert len({execution_identity(open_fixture(name, kv_dtype=kv), FIXTURES / name) for kv in FORMATS}) == 2


@pytest.mark.parametrize("kv_dtype", FORMATS)
def test_inspect_tells_the_format(kv_dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    """MTP pages stay in the model's format."""
    model = FIXTURES / "dense_text"
    assert run(["inspect", str(model), "--dtype", "bfloat16", "--kv-dtype", kv_dtype, "--json"]) == 0
    report, geometry = json.loads(capsys.readouterr().out), read_geometry(model)
    assert (report["dtype"], report["kv_dtype"], report["plan"]["kv_dtype"]) == ("bfloat16", kv_dtype, kv_dtype)
    sizes = {"main_kv": geometry.kv_page_bytes(Pool.MAIN_KV, kv_dtype)}  # type: ignore[arg-type]
    if geometry.mtp_layers:
        sizes["mtp_kv"] = geometry.kv_page_bytes(Pool.MTP_KV, "bfloat16")
    assert report["kv_page_bytes"] == sizes
    assert report["plan"]["main_kv_bytes"] % sizes["main_kv"] == 0


@pytest.mark.parametrize("kv_dtype", FORMATS)
def test_a_model_answers_with_such_pages(
    kv_dtype: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option by environment, from text to text; twice the same."""
    monkeypatch.setenv("NINFER_KV_DTYPE", kv_dtype)
    command = ["generate", str(FIXTURES / "dense_text"), "--dtype", "float32", "--max-context", "256", "--json"]
    said = []
    for _ in range(2):
        assert run([*command, "--ids", "[1, 2, 3, 4, 5]", "--max-tokens", "6", "--temperature", "0"]) == 0
        said.append(json.loads(capsys.readouterr().out)["output_ids"])
    assert said[0] == said[1]
    assert len(said[0]) == 6


def test_another_word_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(Path(FIXTURES) / "dense_text"), "--kv-dtype", "int4"]) == 2
    assert "--kv-dtype" in capsys.readouterr().err
