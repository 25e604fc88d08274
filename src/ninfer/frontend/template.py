"""Chat templates: jinja2 in a sandbox, rendering what Hugging Face's own renderer would.

Knows the template language. Knows nothing of tokens, protection of text or restore points.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from jinja2 import Undefined, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from ninfer.base.clock import unix_seconds
from ninfer.base.errors import BadInput, ModelFileError

RESERVED_NAMES = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
"""Template variables that are ours to set."""

_DICT_ATTRIBUTES = frozenset(dir(dict))
_LOOP_ATTRIBUTES = frozenset(name for name in dir(LoopContext) if not name.startswith("_"))


class ChatTemplate:
    """One compiled chat template. Rendering is free of side effects and may run on several threads."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """`special_tokens`: `bos_token`, `eos_token`, ... as the tokenizer configuration names them."""
        environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ModelFileError(f"the chat template cannot be compiled: {error}") from error
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]],
        kwargs: Mapping[str, object],
        *,
        generation_prompt: bool,
    ) -> str:
        """The prompt text. BadInput when the template refuses the conversation or fails on it."""
        variables: dict[str, object] = {**self._special_tokens, **kwargs}
        variables["messages"] = messages
        variables["tools"] = tools or None
        variables["documents"] = None
        variables["add_generation_prompt"] = generation_prompt
        try:
            return self._template.render(variables)
        except TemplateError as error:
            reason = str(error) or type(error).__name__
            raise BadInput(f"the chat template refused the conversation: {reason}", param="messages") from error
        except Exception as error:  # the template is data of the model directory: whatever it trips over is input
            raise BadInput(f"the chat template failed: {type(error).__name__}: {error}", param="messages") from error


class _Sandbox(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox with short cuts for what chat templates do thousands of times.

    Each short cut answers as the long way would: a dict key that is no dict attribute, a public loop attribute, a
    namespace variable, a macro call. Whether an attribute is safe depends only on type and name, so it is remembered.
    """

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._safe: dict[tuple[type, str], bool] = {}

    def getattr(self, obj: object, attribute: str) -> object:
        kind = type(obj)
        if kind is dict and attribute not in _DICT_ATTRIBUTES:
            found: dict[str, object] = obj  # type: ignore[assignment]
            return found[attribute] if attribute in found else self.undefined(obj=obj, name=attribute)
        if kind is LoopContext and attribute in _LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        if kind is Namespace and not attribute.startswith("_"):
            try:
                return getattr(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
        result: object | Undefined = super().getattr(obj, attribute)
        return result

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        key = (type(obj), attr)
        known = self._safe.get(key)
        if known is None:
            known = self._safe[key] = super().is_safe_attribute(obj, attr, value)
        return known

    def call(self, context: Context, obj: object, /, *args: object, **kwargs: object) -> object:
        if type(obj) is Macro:
            kwargs.pop("_block_vars", None)
            kwargs.pop("_loop_vars", None)
            return obj(context.eval_ctx, *args, **kwargs)
        result: object = super().call(context, obj, *args, **kwargs)
        return result


class _GenerationTag(Extension):
    """`{% generation %} ... {% endgeneration %}` marks assistant text for training; here it prints its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_print_body"), [], [], body).set_lineno(line)

    def _print_body(self, caller: Macro) -> str:
        return caller()


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.fromtimestamp(unix_seconds()).strftime(form)
