"""From options to a running engine on the real device. Importing this imports torch.

Order: everything that is cheap to refuse first (options, text files), then weights, then the parts above them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ninfer.base.pools import Pool
from ninfer.config.geometry import ModelGeometry, read_geometry
from ninfer.config.options import EngineOptions
from ninfer.device.cpu import CpuDevice
from ninfer.device.cuda_support import find_gpu
from ninfer.engine.facade import Engine
from ninfer.frontend.files import read_text_files, text_identity
from ninfer.frontend.frontend import Frontend
from ninfer.ports.device import BYTE_LAYOUT_VERSION
from ninfer.sched.chunks import PrefillWork

from .calibrate import calibrate_costs
from .defaults import read_default_sampling
from .measure import choose_threads
from .parts import EngineParts, make_engine

if TYPE_CHECKING:
    from ninfer.device.cuda import CudaDevice

BUNDLED_MODEL_DIR = Path(__file__).resolve().parent.parent / "bundled_model"
BUNDLED_MODEL_NAME = "ninfer"
_IDENTITY_BYTES = 16
_LAYOUT_VERSION = f"page-and-state layout {BYTE_LAYOUT_VERSION}".encode()
_PROGRESS_STEP = 0.25

Progress = Callable[[str], None]


def assemble(options: EngineOptions, progress: Progress | None = None) -> Engine:
    """A running engine. `progress` is told in words what is being loaded.

    Raises ModelFileError for a directory that cannot be served, BadInput for options that do not fit.
    """
    return make_engine(open_parts(options, progress))


def open_parts(options: EngineOptions, progress: Progress | None = None) -> EngineParts:
    """Load everything. A caller may replace parts before `make_engine` joins them."""
    model_dir = options.model_dir
    read_geometry(model_dir)  # of another family, or no model at all: said before any other file is missed
    files = read_text_files(model_dir)
    sampling = read_default_sampling(model_dir)
    device = _open_device(options, files.vocab_tokens, progress)
    threads = options.threads or 1
    if options.threads is None and isinstance(device, CpuDevice):
        threads = choose_threads(device, options.max_concurrency)
    identity = execution_identity(device, model_dir)
    layout = device.layout
    if progress is not None:
        for line in device.plan.list_lines():
            progress(line)
    frontend = Frontend(files, identity, layout.max_context)
    plan = {
        "device": options.device,
        "numeric_format": device.numeric_format,
        "threads": threads,
        "kv_pages": layout.pools[Pool.MAIN_KV].capacity,
        "kv_page_bytes": layout.pools[Pool.MAIN_KV].block_bytes,
        "state_bytes": device.facts.state_bytes,
        **device.plan.report(),
    }
    host = device if device.host_bytes else None
    costs = calibrate_costs(device, host, options.prefill_chunk_tokens)
    plan["prefill_tokens_per_s"] = round(1 / costs.prefill_s_per_token)
    plan["transfer_bytes_per_s"] = round(1 / costs.transfer_s_per_byte)
    return EngineParts(
        device=device,
        frontend=frontend,
        options=replace(options, max_context=layout.max_context, threads=threads),
        max_context=layout.max_context,
        model_name=find_model_name(model_dir),
        plan=plan,
        default_sampling=sampling,
        costs=costs,
        prefill_work=_prefill_work(device.geometry),
        host=host,
        runs_ahead=not isinstance(device, CpuDevice),
    )


def _prefill_work(geometry: ModelGeometry) -> PrefillWork:
    """Work of prompt tokens in floating-point operations."""
    alone = geometry.token_flops(0)
    return PrefillWork(alone, geometry.token_flops(1) - alone)


def _open_device(options: EngineOptions, vocab_tokens: int, progress: Progress | None) -> CpuDevice | CudaDevice:
    """The device the options name; what only a GPU needs is imported only for one."""
    report = _report_bytes(progress)
    if options.device == "cpu":
        return CpuDevice.open(options, vocab_tokens=vocab_tokens, progress=report)
    find_gpu()
    from ninfer.device.cuda import CudaDevice

    return CudaDevice.open(options, vocab_tokens=vocab_tokens, progress=report)


def execution_identity(device: CpuDevice | CudaDevice, model_dir: Path) -> bytes:
    """Digest of config, weights, numeric formats, layout, tokenizer and template (settled decision 19)."""
    hasher = hashlib.blake2b(digest_size=_IDENTITY_BYTES)
    formats = f"{device.numeric_format} {device.layout.kv_format}".encode()
    for part in (_LAYOUT_VERSION, device.weight_digest, formats, text_identity(model_dir)):
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def find_model_name(model_dir: Path) -> str:
    """The directory's name; the bundled model has the project's."""
    resolved = model_dir.resolve()
    return BUNDLED_MODEL_NAME if resolved == BUNDLED_MODEL_DIR.resolve() else resolved.name


def _report_bytes(progress: Progress | None) -> Callable[[int, int], None] | None:
    """Bytes read, said in a few steps."""
    if progress is None:
        return None
    said = [0.0]

    def report(done_bytes: int, total_bytes: int) -> None:
        share = done_bytes / total_bytes if total_bytes else 1.0
        if share >= said[0] + _PROGRESS_STEP or (share == 1.0 and said[0] < 1.0):
            said[0] = share
            progress(f"weights {share:.0%} of {total_bytes / 1e6:.1f} MB")

    return report
