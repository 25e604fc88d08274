"""Fields of engine and server options as the command line spells them, so that an error names what was typed."""

from __future__ import annotations

import re

from ninfer.base.errors import BadInput

FLAGS: dict[str, str] = {
    "device": "--device",
    "dtype": "--dtype",
    "kv_dtype": "--kv-dtype",
    "threads": "--threads",
    "max_context": "--max-context",
    "kv_capacity": "--kv-capacity",
    "max_concurrency": "--max-concurrency",
    "context_cache.device_state_slots": "--device-state-slots",
    "context_cache.host_capacity_bytes": "--host-capacity-bytes",
    "device_state_slots": "--device-state-slots",
    "host_capacity_bytes": "--host-capacity-bytes",
    "prefill_chunk_tokens": "--prefill-chunk",
    "max_gap_ms": "--max-gap-ms",
    "max_queue": "--max-queue",
    "queue_timeout_s": "--queue-timeout",
    "request_timeout_s": "--request-timeout",
    "audit_every_cycles": "--audit-every",
    "reuse": "--reuse",
    "reclaim_order": "--reclaim-order",
    "host": "--host",
    "port": "--port",
    "served_model_names": "--served-model-name",
    "api_keys": "--api-key-file",
    "cors_origins": "--cors-origin",
    "body_limit_bytes": "--body-limit",
    "body_timeout_s": "--body-timeout",
    "ping_interval_s": "--ping-interval",
    "unread_limit_bytes": "--unread-limit",
    "stalled_reader_timeout_s": "--stalled-reader-timeout",
    "stall_timeout_s": "--stall-timeout",
    "drain_timeout_s": "--drain-timeout",
}
"""Field to option. Only the model has none: it is the command's argument."""

REPLAY_FLAGS: dict[str, str] = {
    "device_bytes": "--device-bytes",
    "geometry": "--geometry",
    "host_bytes": "--host-bytes",
    "state_share": "--state-share",
}
"""The same for what `ninfer simulate` alone has."""

FILE_FLAGS: dict[str, str] = {"api_key_file": "--api-key-file", "request_log": "--request-log"}
"""Options that name a file: fields of nothing. A message begins with them; elsewhere they may be part of a path."""

_SPELLINGS = FLAGS | REPLAY_FLAGS | FILE_FLAGS
_NAMES_OF_OPTIONS = re.compile(
    r"\b("
    + "|".join(re.escape(name) for name in FLAGS | REPLAY_FLAGS if "_" in name)
    + r")\b"  # longer names stand first
)


def is_about_option(error: BadInput) -> bool:
    """Whether the value of an option is at fault: wrong usage, found later than the command line's own checks."""
    return error.param in _SPELLINGS


def spell_options(error: BadInput) -> str:
    """The message with each field that an option sets spelled as that option.

    Only for an error that is about such a field. A plain word (`device`) counts only where the message begins with
    it: elsewhere it is a word of the sentence.
    """
    text, field = str(error), error.param
    if field not in _SPELLINGS:
        return text
    if text.startswith(field):
        text = _SPELLINGS[field] + text.removeprefix(field)
    return spell_names(text)


def spell_names(text: str) -> str:
    """Text of ours with every name of several words spelled as its option."""
    return _NAMES_OF_OPTIONS.sub(lambda found: _SPELLINGS[found[1]], text)
