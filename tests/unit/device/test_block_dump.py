"""Blocks leave the process and come back in another one, bit for bit, or are refused [decision 19]."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from block_files import PAGES, PROMPT, go_on, open_device
from cpu_driver import FIXTURES, Sequence_, collect

from ninfer.base.ids import PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.build.assemble import execution_identity
from ninfer.device.dump import HEADER_BYTES, BlockRefused, dump_block, read_block
from ninfer.ports.device import PageToHost, StateToHost

HERE = Path(__file__).parent
IDENTITY = bytes(range(16))


def run_elsewhere(model_dir: Path, dtype: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "block_files.py"), str(model_dir), dtype, str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def dump_prompt(model_dir: Path, dtype: str, folder: Path) -> dict[str, str]:
    """Compute PROMPT, dump state and pages by way of the host arena, go on here."""
    device = open_device(model_dir, dtype)
    sequence = Sequence_(device, 0, 1, [1, 2])
    sequence.prefill(PROMPT)
    page_bytes, state_bytes = device.facts.page_bytes[Pool.MAIN_KV], device.facts.state_bytes
    offsets = [state_bytes + index * page_bytes for index in range(2)]
    pages = [PageToHost(Pool.MAIN_KV, PageId(1 + index), offset, 64) for index, offset in enumerate(offsets)]
    device.submit_host_copy([StateToHost(SlotId(1), 0), *pages])
    collect(device, 1)
    identity = execution_identity(device, model_dir)
    state = device.host.read_bytes(0, state_bytes)
    (folder / "state").write_bytes(dump_block(Pool.STATE, state, identity))
    for name, offset in zip(PAGES, offsets, strict=True):
        page = device.host.read_bytes(offset, page_bytes)
        (folder / name).write_bytes(dump_block(Pool.MAIN_KV, page, identity))
    return go_on(device, 1, [1, 2])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_another_process_goes_on_bit_for_bit(dtype: str, tmp_path: Path) -> None:
    """[decision 8] [decision 19] the same state, the same page, the same log-probabilities two steps later."""
    want = dump_prompt(FIXTURES / "dense_text", dtype, tmp_path)
    done = run_elsewhere(FIXTURES / "dense_text", dtype, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == want


def test_another_identity_is_refused(tmp_path: Path) -> None:
    """[decision 19] another template over the same weights, or another format: same blocks, other meaning."""
    model_dir = tmp_path / "dense_text"
    shutil.copytree(FIXTURES / "dense_text", model_dir)
    template = model_dir / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    dump_prompt(FIXTURES / "dense_text", "float32", tmp_path)
    for directory, dtype in ((model_dir, "float32"), (FIXTURES / "dense_text", "float64")):
        done = run_elsewhere(directory, dtype, tmp_path)
        assert done.returncode == 3, done.stderr
        assert "execution identity" in done.stderr


def test_what_is_no_such_block_is_refused_and_said() -> None:
    """Every field of the header is looked at; a changed bit of the content is seen."""
    dumped = dump_block(Pool.MAIN_KV, bytes(1000), IDENTITY)
    assert len(dumped) == HEADER_BYTES + 1000
    assert read_block(dumped, Pool.MAIN_KV, 1000, IDENTITY) == bytes(1000)
    for wrong, word in (
        (dumped[:100], "cut short"),
        (b"x" + dumped[1:], "no block"),
        (dumped[:8] + b"\x09" + dumped[9:], "byte layout 9"),
        (dumped[:12] + b"\x02" + dumped[13:], "kind 2"),
        (dumped[:16] + b"\xff" + dumped[17:], "execution identity ff"),
        (dumped[:32] + b"\x00" + dumped[33:], "bytes"),
        (dumped[:-1], "damaged"),
        (dumped[:-1] + b"\x01", "damaged"),
    ):
        with pytest.raises(BlockRefused, match=word):
            read_block(wrong, Pool.MAIN_KV, 1000, IDENTITY)
    with pytest.raises(BlockRefused, match="kind 1"):
        read_block(dumped, Pool.STATE, 1000, IDENTITY)
