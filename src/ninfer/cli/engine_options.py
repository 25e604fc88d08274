"""Command-line options that describe an engine, shared by every command that opens one. Each is also an environment
variable, shown in --help."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from ninfer.config.options import DEFAULT_PREFILL_CHUNK_TOKENS, MAX_LANES, ContextCacheOptions, EngineOptions

BUNDLED_MODEL_NAME = "ninfer"

_Command = TypeVar("_Command", bound=Callable[..., Any])
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class ByteCount(click.ParamType[int]):
    """A whole number of bytes, with an optional unit: 1048576, 64MiB, 8GiB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"\s*(\d{1,18})\s*([kmg]i?|)b?\s*", str(value).lower())
        if found is None:
            self.fail(f"{value!r} is not a number of bytes (examples: 1048576, 64MiB, 8GiB)", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


class NumberRange(click.FloatRange):
    """A number in a range. Not-a-number lies in none, though no comparison says so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class TokensOrAuto(click.ParamType[Any]):
    """A number of tokens, or `auto`."""

    name = "tokens|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | Literal["auto"]:
        if value == "auto" or isinstance(value, int):
            return value  # type: ignore[no-any-return]
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither a number of tokens nor 'auto'", param, ctx)
        return int(value)


def env_option(flag: str, **settings: Any) -> Callable[[_Command], _Command]:
    """An option whose environment variable is NINFER_ and its name."""
    name = "NINFER_" + flag.split("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(flag, envvar=name, show_envvar=True, **settings)


def model_argument(command: _Command) -> _Command:
    """MODEL_DIR; without it the bundled model."""
    return click.argument(
        "model_dir",
        required=False,
        envvar="NINFER_MODEL_DIR",
        type=click.Path(path_type=Path, file_okay=False),
    )(command)


_ENGINE_OPTIONS = (
    env_option(
        "--max-context",
        type=click.IntRange(min=16),
        help="Tokens of one request, prompt and output together. [default: the model's limit]",
    ),
    env_option(
        "--kv-capacity", type=TokensOrAuto(), default="auto", show_default=True, help="Tokens of the KV pool, or auto."
    ),
    env_option(
        "--max-concurrency",
        type=click.IntRange(1, MAX_LANES),
        default=4,
        show_default=True,
        help="Requests that run at once.",
    ),
    env_option(
        "--device-state-slots",
        type=click.IntRange(min=0),
        help="State slots for remembered conversations, beyond one a lane. [default: as many as lanes]",
    ),
    env_option(
        "--host-capacity-bytes",
        type=ByteCount(),
        help="Host memory for restore points and paused requests; 0: none. [default: 8 GiB and 8 states, or less where "
        "the machine has less]",
    ),
    env_option(
        "--device",
        type=click.Choice(["cpu", "cuda"]),
        default="cpu",
        show_default=True,
        help="Where to run; cuda needs an NVIDIA GPU and the extra ninfer[cuda].",
    ),
    env_option(
        "--dtype",
        type=click.Choice(["auto", "bfloat16", "float32", "float64"]),
        default="auto",
        show_default=True,
        help="Numeric format of weights and activations; auto: bfloat16 where the processor has it, or float32.",
    ),
    env_option(
        "--kv-dtype",
        type=click.Choice(["auto", "fp8", "int8"]),
        default="auto",
        show_default=True,
        help="Numeric format of the KV pages; fp8 and int8 take half the bytes of bfloat16, auto: that of --dtype.",
    ),
    env_option("--threads", type=click.IntRange(min=1), help="CPU threads of the model. [default: measured]"),
    env_option(
        "--prefill-chunk",
        type=click.IntRange(min=64),
        default=DEFAULT_PREFILL_CHUNK_TOKENS,
        show_default=True,
        help="Prompt tokens computed between two decode steps; a multiple of 64.",
    ),
    env_option(
        "--max-gap-ms",
        type=NumberRange(min=0, min_open=True),
        help="Milliseconds that answering lanes may wait for a prompt chunk; chunks are then cut shorter, down to 64 "
        "tokens. [default: no limit]",
    ),
    env_option(
        "--max-queue", type=click.IntRange(min=1), default=128, show_default=True, help="Requests that may wait."
    ),
    env_option(
        "--queue-timeout", type=NumberRange(min=0.001), default=600.0, show_default=True, help="Seconds in queue."
    ),
    env_option(
        "--request-timeout",
        type=NumberRange(min=0.001),
        default=3600.0,
        show_default=True,
        help="Seconds for one request in all.",
    ),
    env_option("--reuse/--no-reuse", default=True, show_default=True, help="Keep restore points for later requests."),
    env_option(
        "--reclaim-order",
        type=click.Choice(["expected", "source"]),
        default="expected",
        show_default=True,
        help="What goes first when room is needed: what is least missed, or as in the design document.",
    ),
    env_option(
        "--audit-every",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Recount all stores every so many cycles; 0: never.",
    ),
)


def engine_options(command: _Command) -> _Command:
    """MODEL_DIR and every option of an engine; the command takes them as keywords."""
    for option in reversed(_ENGINE_OPTIONS):
        command = option(command)
    return model_argument(command)


def read_engine_options(given: dict[str, Any]) -> EngineOptions:
    """Engine options out of a command's keywords; takes its own and leaves the rest. Raises BadInput."""
    model_dir: Path | None = given.pop("model_dir")
    return EngineOptions(
        model_dir=find_model_dir(model_dir),
        device=given.pop("device"),
        dtype=given.pop("dtype"),
        kv_dtype=given.pop("kv_dtype"),
        threads=given.pop("threads"),
        max_context=given.pop("max_context"),
        kv_capacity=given.pop("kv_capacity"),
        max_concurrency=given.pop("max_concurrency"),
        context_cache=ContextCacheOptions(
            device_state_slots=given.pop("device_state_slots"),
            host_capacity_bytes=given.pop("host_capacity_bytes"),
        ),
        prefill_chunk_tokens=given.pop("prefill_chunk"),
        max_gap_ms=given.pop("max_gap_ms"),
        max_queue=given.pop("max_queue"),
        queue_timeout_s=given.pop("queue_timeout"),
        request_timeout_s=given.pop("request_timeout"),
        reuse=given.pop("reuse"),
        reclaim_order=given.pop("reclaim_order"),
        audit_every_cycles=given.pop("audit_every"),
    )


def find_model_dir(given: Path | None) -> Path:
    """The directory asked for, or the bundled model's."""
    return bundled_model_dir() if given is None else given


def bundled_model_dir() -> Path:
    """Where the package keeps its own model."""
    return Path(__file__).resolve().parents[1] / "bundled_model"


def find_model_name(model_dir: Path) -> str:
    """What a model is called when nobody says: the bundled one by the package's name, others by their directory."""
    resolved = model_dir.resolve()
    return BUNDLED_MODEL_NAME if resolved == bundled_model_dir() else resolved.name
