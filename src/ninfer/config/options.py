"""Options of an engine and of a server, with their limits. The spelling follows the design document."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Literal

from ninfer.base.errors import BadInput
from ninfer.base.pools import PAGE_TOKENS

MAX_LANES = 8
LEAST_CONTEXT = 16
DEFAULT_PREFILL_CHUNK_TOKENS = 512

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+", re.IGNORECASE)
"""What a browser sends as Origin, but for `null`."""


@dataclass(frozen=True, slots=True)
class ContextCacheOptions:
    """`device_state_slots`: StateImage slots beyond the C basic ones; None means C. `host_capacity_bytes`: the host
    tier; 0: none; None: 8 GiB and 8 StateImages, or what the machine has (C2)."""

    device_state_slots: int | None = None
    host_capacity_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How one engine is built. None for `max_context` means the model's own limit."""

    model_dir: Path
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["auto", "bfloat16", "float32", "float64"] = "auto"
    kv_dtype: Literal["auto", "fp8", "int8"] = "auto"
    """Format of Main KV pages; auto: the model's."""
    threads: int | None = None
    max_context: int | None = None
    kv_capacity: int | Literal["auto"] = "auto"
    max_concurrency: int = 4
    context_cache: ContextCacheOptions = field(default_factory=ContextCacheOptions)
    prefill_chunk_tokens: int = DEFAULT_PREFILL_CHUNK_TOKENS
    max_gap_ms: float | None = None
    """How long lanes that decode may wait for a prompt chunk; None: chunks are always as long as they may be."""
    max_queue: int = 128
    queue_timeout_s: float = 600.0
    request_timeout_s: float = 3600.0
    reuse: bool = True
    """False: nothing is kept for later requests (for comparison runs)."""
    reclaim_order: Literal["expected", "source"] = "expected"
    """What goes first when room is needed: what is least missed (docs/adr/0007), or the design document's order."""
    audit_every_cycles: int = 0
    """Full recount of all stores every N cycles; 0: never (cheap assertions stay on)."""

    def __post_init__(self) -> None:
        _check_between("max_concurrency", self.max_concurrency, 1, MAX_LANES)
        _check_least("max_context", self.max_context, LEAST_CONTEXT, "tokens")
        _check_least("kv_capacity", None if self.kv_capacity == "auto" else self.kv_capacity, PAGE_TOKENS, "tokens")
        _check_least("context_cache.device_state_slots", self.context_cache.device_state_slots, 0, "slots")
        _check_least("context_cache.host_capacity_bytes", self.context_cache.host_capacity_bytes, 0, "bytes")
        chunk = self.prefill_chunk_tokens
        _check(
            chunk >= PAGE_TOKENS and chunk % PAGE_TOKENS == 0,
            "prefill_chunk_tokens",
            f"must be a multiple of {PAGE_TOKENS}",
        )
        _check(self.max_gap_ms is None or 0 < self.max_gap_ms < inf, "max_gap_ms", "must be a positive number")
        _check(self.max_queue >= 1, "max_queue", "must be at least 1")
        _check(self.queue_timeout_s > 0, "queue_timeout_s", "must be positive")
        _check(self.request_timeout_s > 0, "request_timeout_s", "must be positive")
        _check(self.threads is None or self.threads >= 1, "threads", "must be at least 1")
        _check(self.audit_every_cycles >= 0, "audit_every_cycles", "must not be negative")

    @property
    def extra_state_slots(self) -> int:
        """StateImage slots beyond the C basic ones."""
        slots = self.context_cache.device_state_slots
        return self.max_concurrency if slots is None else slots


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the HTTP side behaves."""

    host: str = "127.0.0.1"
    port: int = 8000
    served_model_names: tuple[str, ...] = ()
    api_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    body_limit_bytes: int = 128 * 1024 * 1024
    body_timeout_s: float = 60.0
    ping_interval_s: float = 5.0
    unread_limit_bytes: int = 4 * 1024 * 1024
    stalled_reader_timeout_s: float = 60.0
    stall_timeout_s: float = 60.0
    drain_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        _check(0 <= self.port <= 65535, "port", "must be 0 to 65535")
        _check(all(self.served_model_names), "served_model_names", "must not be empty")
        for origin in self.cors_origins:
            _check(
                origin in ("*", "null") or _ORIGIN.fullmatch(origin) is not None,
                "cors_origins",
                f"must be * or scheme://host[:port] without a path, not {origin!r}",
            )
        _check(self.body_limit_bytes >= 1024, "body_limit_bytes", "must be at least 1024 bytes")
        _check(self.body_timeout_s > 0, "body_timeout_s", "must be positive")
        _check(0 < self.ping_interval_s <= 10, "ping_interval_s", "must be in (0, 10]")
        _check(self.unread_limit_bytes >= 1024, "unread_limit_bytes", "must be at least 1024 bytes")
        _check(self.stalled_reader_timeout_s > 0, "stalled_reader_timeout_s", "must be positive")
        _check(self.stall_timeout_s > 0, "stall_timeout_s", "must be positive")
        _check(self.drain_timeout_s >= 0, "drain_timeout_s", "must not be negative")


def _check_between(name: str, value: int, low: int, high: int) -> None:
    nearest = min(max(value, low), high)
    _check(low <= value <= high, name, f"must be {low} to {high}, not {value}; nearest legal value: {nearest}")


def _check_least(name: str, value: int | None, low: int, unit: str) -> None:
    """None: not given."""
    given = value is not None and value < low
    _check(not given, name, f"must be at least {low} {unit}, not {value}; nearest legal value: {low}")


def _check(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise BadInput(f"{name} {rule}", param=name)
