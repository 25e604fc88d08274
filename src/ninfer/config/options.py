"""Options of an engine and of a server, with their limits. The spelling follows the design document."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ninfer.base.errors import BadInput
from ninfer.base.pools import PAGE_TOKENS

MAX_LANES = 8
DEFAULT_PREFILL_CHUNK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class ContextCacheOptions:
    """`device_state_slots`: StateImage slots beyond the C basic ones; None means C (C2)."""

    device_state_slots: int | None = None
    host_capacity_bytes: int = 0


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How one engine is built. None for `max_context` means the model's own limit."""

    model_dir: Path
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["auto", "bfloat16", "float32", "float64"] = "auto"
    threads: int | None = None
    max_context: int | None = None
    kv_capacity: int | Literal["auto"] = "auto"
    max_concurrency: int = 4
    context_cache: ContextCacheOptions = field(default_factory=ContextCacheOptions)
    prefill_chunk_tokens: int = DEFAULT_PREFILL_CHUNK_TOKENS
    max_queue: int = 128
    queue_timeout_s: float = 600.0
    request_timeout_s: float = 3600.0
    reuse: bool = True
    """False: nothing is kept for later requests (for comparison runs)."""
    audit_every_cycles: int = 0
    """Full recount of all stores every N cycles; 0: never (cheap assertions stay on)."""

    def __post_init__(self) -> None:
        _check(1 <= self.max_concurrency <= MAX_LANES, "max_concurrency", f"must be 1 to {MAX_LANES}")
        _check(self.max_context is None or self.max_context >= 16, "max_context", "must be at least 16 tokens")
        enough = self.kv_capacity == "auto" or self.kv_capacity >= PAGE_TOKENS
        _check(enough, "kv_capacity", f"must be 'auto' or at least {PAGE_TOKENS} tokens")
        slots = self.context_cache.device_state_slots
        _check(slots is None or slots >= 0, "context_cache.device_state_slots", "must not be negative")
        _check(self.context_cache.host_capacity_bytes >= 0, "context_cache.host_capacity_bytes", "must not be negative")
        chunk = self.prefill_chunk_tokens
        _check(
            chunk >= PAGE_TOKENS and chunk % PAGE_TOKENS == 0,
            "prefill_chunk_tokens",
            f"must be a multiple of {PAGE_TOKENS}",
        )
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
    drain_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        _check(0 <= self.port <= 65535, "port", "must be 0 to 65535")
        _check(self.body_limit_bytes >= 1024, "body_limit_bytes", "must be at least 1024 bytes")
        _check(self.body_timeout_s > 0, "body_timeout_s", "must be positive")
        _check(0 < self.ping_interval_s <= 10, "ping_interval_s", "must be in (0, 10]")
        _check(self.unread_limit_bytes >= 1024, "unread_limit_bytes", "must be at least 1024 bytes")
        _check(self.stalled_reader_timeout_s > 0, "stalled_reader_timeout_s", "must be positive")
        _check(self.drain_timeout_s >= 0, "drain_timeout_s", "must not be negative")


def _check(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise BadInput(f"{name} {rule}", param=name)
