"""Fields that are known and not built: refused by name whenever their value would change the output (JSON-01).

A value that asks for nothing (`n` 1, `echo` false, `response_format` text) is accepted, because client libraries send
defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ninfer.server.errors import invalid, unsupported

_Asks = Callable[[Any], bool]
"""Whether a decoded value asks for something."""


def _anything(value: Any) -> bool:
    return bool(value not in (False, None, "") and value != [] and value != {})


def _more_than_one(value: Any) -> bool:
    return bool(value != 1)


def _not_text_format(value: Any) -> bool:
    return not (isinstance(value, dict) and value.get("type") == "text")


def _not_zero(value: Any) -> bool:
    return value not in (0, False)


def _not_true(value: Any) -> bool:
    return value is not True


def _beyond_text(value: Any) -> bool:
    return bool(value != ["text"] and value != [])


_REFUSED_EVERYWHERE: Mapping[str, _Asks] = {
    "response_format": _not_text_format,
    "best_of": _more_than_one,
    "use_beam_search": _anything,
    "length_penalty": _more_than_one,
    "bad_words": _anything,
    "allowed_token_ids": _anything,
    "logits_processors": _anything,
    "prompt_logprobs": _anything,
    "truncate_prompt_tokens": _anything,
    "structured_outputs": _anything,
    "guided_json": _anything,
    "guided_regex": _anything,
    "guided_choice": _anything,
    "guided_grammar": _anything,
    "json_schema": _anything,
    "grammar": _anything,
    "regex": _anything,
    "ebnf": _anything,
    "typical_p": _more_than_one,
    "tfs_z": _more_than_one,
    "top_a": _not_zero,
    "mirostat": _not_zero,
    "dry_multiplier": _not_zero,
    "xtc_probability": _not_zero,
    "dynatemp_range": _not_zero,
    "top_n_sigma": _anything,
    "samplers": _anything,
    "repeat_penalty": _more_than_one,
    "sampling_seed": _anything,
    "custom_logit_processor": _anything,
    "max_new_tokens": _anything,
    "min_new_tokens": _not_zero,
    "n_predict": _anything,
    "include_stop_str_in_output": _anything,
    "no_stop_trim": _anything,
    "skip_special_tokens": _not_true,
    "return_token_ids": _anything,
    "return_tokens_as_token_ids": _anything,
    "return_hidden_states": _anything,
    "priority": _not_zero,
    "cache_prompt": _not_true,
    "cache_salt": _anything,
    "lora": _anything,
    "lora_path": _anything,
    "options": _anything,
    "format": _anything,
}
_REFUSED_IN_CHAT: Mapping[str, _Asks] = {
    "functions": _anything,
    "function_call": lambda value: value != "none",
    "audio": _anything,
    "modalities": _beyond_text,
    "prediction": _anything,
    "web_search_options": _anything,
    "moderation": _anything,
    "continue_final_message": _anything,
    "add_generation_prompt": lambda value: value is not True,
    "echo": _anything,
    "chat_template": _anything,
    "documents": _anything,
    "prompt": _anything,
    "suffix": _anything,
    "think": _anything,
    "include_reasoning": _not_true,
    "separate_reasoning": _not_true,
    "stream_reasoning": _not_true,
    "verbosity": lambda value: value != "medium",
}
_REFUSED_IN_COMPLETIONS: Mapping[str, _Asks] = {
    "echo": _anything,
    "suffix": _anything,
    "prompt_embeds": _anything,
    "messages": _anything,
    "tools": _anything,
    "tool_choice": lambda value: value not in ("auto", "none"),
    "max_completion_tokens": _anything,
    "top_logprobs": _anything,
    "chat_template_kwargs": _anything,
    "enable_thinking": _anything,
    "reasoning_effort": lambda value: value != "none",
    "thinking_budget": _anything,
    "thinking_token_budget": _anything,
}

WITHOUT_EFFECT = frozenset(
    {
        "user",
        "store",
        "metadata",
        "service_tier",
        "safety_identifier",
        "prompt_cache_options",
        "prompt_cache_retention",
    }
)
"""Known fields that no output depends on: accepted."""


def list_refused_in_chat() -> frozenset[str]:
    """Names of the fields that a chat request may not use."""
    return frozenset({*_REFUSED_EVERYWHERE, *_REFUSED_IN_CHAT, "n"})


def list_refused_in_completions() -> frozenset[str]:
    """The same for /v1/completions."""
    return frozenset({*_REFUSED_EVERYWHERE, *_REFUSED_IN_COMPLETIONS, "n"})


def check_chat_fields(fields: Mapping[str, msgspec.Raw]) -> None:
    """Raise ApiError naming the first field of a chat request that asks for something not built."""
    _check(fields, {**_REFUSED_EVERYWHERE, **_REFUSED_IN_CHAT})


def check_completion_fields(fields: Mapping[str, msgspec.Raw]) -> None:
    """The same for /v1/completions."""
    _check(fields, {**_REFUSED_EVERYWHERE, **_REFUSED_IN_COMPLETIONS})


def _check(fields: Mapping[str, msgspec.Raw], refused: Mapping[str, _Asks]) -> None:
    _check_count(fields)
    for name, raw in fields.items():
        asks = refused.get(name)
        if asks is not None and asks(msgspec.json.decode(raw)):
            raise unsupported(name, f"{name} is not supported by this server.")


def _check_count(fields: Mapping[str, msgspec.Raw]) -> None:
    if "n" not in fields:
        return
    count = msgspec.json.decode(fields["n"])
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise invalid("n must be a whole number of at least 1.", param="n")
    if count > 1:
        raise unsupported("n", "n must be 1: this server gives one choice a request.")
