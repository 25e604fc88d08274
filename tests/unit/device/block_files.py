"""Run as a program: read dumped blocks into a device of its own, go on from them, print digests of what came out.

    block_files.py MODEL_DIR DTYPE FOLDER

FOLDER holds `state` and `page0`, `page1`. Prints one JSON object; exits with 3 where a block is refused.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch
from cpu_driver import Sequence_, collect, decode

from ninfer.base.ids import PageId, SlotId
from ninfer.base.pools import Pool
from ninfer.build.assemble import execution_identity
from ninfer.config.options import ContextCacheOptions, EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.device.dump import BlockRefused, read_block
from ninfer.ports.device import PageFromHost, StateFromHost

PROMPT = list(range(40, 140))
PAGES = ["page0", "page1"]


def open_device(model_dir: Path, dtype: str) -> CpuDevice:
    cache = ContextCacheOptions(device_state_slots=2, host_capacity_bytes=1 << 21)
    return CpuDevice.open(
        EngineOptions(model_dir, dtype=dtype, max_context=256, max_concurrency=2, context_cache=cache)  # type: ignore[arg-type]
    )


def go_on(device: CpuDevice, slot: int, pages: list[int]) -> dict[str, str]:
    """Two decode steps and a draw from the state of PROMPT, as digests of all that they wrote."""
    sequence = Sequence_(device, 0, slot, pages)
    sequence.frontier, sequence.started = len(PROMPT), True
    decode([sequence], [7])
    decode([sequence], [9])
    drawn = sequence.draw(logprobs=5)
    page = device.arena.kv[Pool.MAIN_KV][pages[1], ..., : len(PROMPT) - 64 + 2, :]
    return {
        "state": digest(device.arena.images[slot]),
        "page": digest(page.contiguous().flatten().view(torch.uint8)),
        "logprobs": repr(drawn.logprobs),
    }


def digest(values: torch.Tensor) -> str:
    return hashlib.blake2b(values.numpy().tobytes()).hexdigest()


def main(model_dir: str, dtype: str, folder: str) -> int:
    device = open_device(Path(model_dir), dtype)
    identity = execution_identity(device, Path(model_dir))
    page_bytes, state_bytes = device.facts.page_bytes[Pool.MAIN_KV], device.facts.state_bytes
    try:
        state = read_block((Path(folder) / "state").read_bytes(), Pool.STATE, state_bytes, identity)
        pages = [read_block((Path(folder) / name).read_bytes(), Pool.MAIN_KV, page_bytes, identity) for name in PAGES]
    except BlockRefused as error:
        print(error, file=sys.stderr)
        return 3
    offsets = [state_bytes + index * page_bytes for index in range(len(pages))]
    device.host.write_bytes(0, state)
    for offset, page in zip(offsets, pages, strict=True):
        device.host.write_bytes(offset, page)
    full = [PageFromHost(Pool.MAIN_KV, offset, PageId(3 - index), 64) for index, offset in enumerate(offsets)]
    device.submit_host_copy([StateFromHost(0, SlotId(2)), *full])
    collect(device, 1)
    print(json.dumps(go_on(device, 2, [3, 2])))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
