"""The frontend of one model: chat, text or tokens in, `InputPlan` out; tokens in, text and channel events out (B1).

Composes the parts of this package. Knows neither lanes nor stores nor protocols; all methods may be called from
several threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from ninfer.base.buffers import IntBuffer
from ninfer.base.errors import BadInput
from ninfer.frontend.channels import THINK_CLOSE, THINK_OPEN, ChannelParser
from ninfer.frontend.conversation import (
    list_template_messages,
    list_template_tools,
    protected_kwargs,
    shape_messages,
)
from ninfer.frontend.detokenize import Detokenizer, TokenBytes
from ninfer.frontend.digests import RecentDigests
from ninfer.frontend.escape import replace_surrogates, unescape
from ninfer.frontend.files import TextFiles, read_text_files
from ninfer.frontend.markers import Rendered, choose_frontiers, find_marks, find_moving
from ninfer.frontend.messages import ChatInput, MarkerUse
from ninfer.frontend.plan import InputPlan, ThoughtEnd
from ninfer.frontend.rewrite import Rewrite, find_rewrite
from ninfer.frontend.template import ChatTemplate
from ninfer.frontend.tokens import EncodedText, SegmentTokenizer

_REMEMBERED_PROMPTS = 16
_REMEMBERED_CHARS_PER_CONTEXT_TOKEN = 32
_LEAST_REMEMBERED_CHARS = 1 << 20
_CALL_ID_BYTES = 12


def random_call_id() -> str:
    """A tool-call id that no earlier turn of any conversation has."""
    return f"call_{secrets.token_hex(_CALL_ID_BYTES)}"


class Frontend:
    """Text side of one model."""

    def __init__(self, files: TextFiles, execution_identity: bytes, max_context: int) -> None:
        """`max_context` bounds what is remembered; whether a prompt fits is the engine's business."""
        self.vocab_size = files.vocab_tokens
        self.stop_token_ids = files.stop_token_ids
        chars = max(_LEAST_REMEMBERED_CHARS, _REMEMBERED_CHARS_PER_CONTEXT_TOKEN * max_context)
        self._tokens = SegmentTokenizer(files.plain, files.added, remembered_chars=chars)
        self._token_bytes = TokenBytes(files.plain, files.added)
        self._digests = RecentDigests(execution_identity, _REMEMBERED_PROMPTS)
        self._template = None if files.template is None else ChatTemplate(files.template, files.special_tokens)
        self._thought_end = _find_thought_end(self._tokens)
        self._late_system = self._template is not None and _takes_late_system(self._template)

    @classmethod
    def from_dir(cls, model_dir: Path, execution_identity: bytes, max_context: int) -> Frontend:
        """Raises ModelFileError, naming the file."""
        return cls(read_text_files(model_dir), execution_identity, max_context)

    def render(self, chat: ChatInput) -> str:
        """The prompt text of a conversation. BadInput when the template refuses it."""
        return unescape(self._render(chat).text)

    def plan_chat(self, chat: ChatInput) -> InputPlan:
        """Render, tokenise, find the rewrite point, the recovery position and the markers. Raises BadInput."""
        rendered = self._render(chat)
        encoded = self._tokens.encode(rendered.text)
        prompt = len(encoded.tokens)
        rewrite = find_rewrite(rendered.template, rendered.text, rendered.messages, rendered.tools, rendered.kwargs)
        point = None if rewrite is None else self._tokens.frontier_at(encoded, rewrite.point)
        recovery = prompt
        frontiers: tuple[int, ...] = ()
        if rewrite is not None and point:
            recovery, frontiers = point, self._rewrite_frontiers(encoded, rewrite, point)
            if rewrite.content_end is not None:
                recovery = self._tokens.frontier_at(encoded, rewrite.content_end) or point
        placed = [(mark, self._tokens.deepest_frontier(encoded, mark.position)) for mark in find_marks(rendered)]
        shared = choose_frontiers(placed, MarkerUse.SHARED, prompt)
        anchors = choose_frontiers(placed, MarkerUse.ANCHOR, prompt)
        opens_thinking = rendered.text.rfind(THINK_OPEN) > rendered.text.rfind(THINK_CLOSE)
        return InputPlan(
            tokens=encoded.tokens,
            digests=self._digests.chain_of(encoded.tokens),
            recovery_frontier=recovery,
            stop_token_ids=self.stop_token_ids,
            rewrite=rewrite.kind if rewrite is not None and point else None,
            rewrite_point=point or None,
            rewrite_execution_frontiers=frontiers,
            shared_markers=shared,
            moving_marker=find_moving(placed, shared),
            anchors=anchors,
            execution_frontiers=_inside(prompt, recovery, *frontiers, *shared, *anchors),
            session=chat.session,
            opens_thinking=opens_thinking,
            thought_end=self._thought_end if opens_thinking else None,
        )

    def plan_text(self, text: str) -> InputPlan:
        """Raw text: control tokens may be spelled out in it; P is the recovery position (D3)."""
        tokens = self._tokens.encode_raw(replace_surrogates(text))
        return self._plan(tokens)

    def plan_tokens(self, tokens: Sequence[int]) -> InputPlan:
        """Raw tokens. BadInput for an id that the tokenizer does not have."""
        if any(type(token) is not int for token in tokens):
            raise BadInput("token ids must be whole numbers", param="prompt", code="invalid_type")
        if tokens and not (min(tokens) >= 0 and max(tokens) < self.vocab_size):
            position = next(place for place, token in enumerate(tokens) if not 0 <= token < self.vocab_size)
            message = f"token id {tokens[position]} at position {position} is not in [0, {self.vocab_size})"
            raise BadInput(message, param="prompt")
        ledger = IntBuffer(tokens)
        return self._plan(ledger)

    def detokenizer(self) -> Detokenizer:
        """A fresh decoder for one request's output."""
        return Detokenizer(self._token_bytes)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token spells, control tokens included."""
        return self._token_bytes.spelling(token_id)

    def shown_bytes(self, token_id: int) -> bytes:
        """The bytes a token adds to the output text: none for a special token."""
        return self._token_bytes.shown(token_id)

    def channel_parser(
        self, plan: InputPlan, chat: ChatInput, new_call_id: Callable[[], str] = random_call_id
    ) -> ChannelParser:
        """A fresh parser for one answer to `chat`."""
        return ChannelParser(chat.active_tools, opens_thinking=plan.opens_thinking, new_call_id=new_call_id)

    def _render(self, chat: ChatInput) -> Rendered:
        if self._template is None:
            raise BadInput("this model has no chat template; use raw completion", param="messages")
        control = self._tokens.control
        shaped = shape_messages(chat, late_system=self._late_system)
        messages = list_template_messages(shaped, control)
        tools = list_template_tools(chat, control)
        kwargs = protected_kwargs(chat, control)
        text = self._template.render(messages, tools, kwargs, generation_prompt=True)
        return Rendered(self._template, control, text, shaped, messages, chat.active_tools, tools, kwargs)

    def _rewrite_frontiers(self, encoded: EncodedText, rewrite: Rewrite, point: int) -> tuple[int, ...]:
        """Where the mathematics is cut for the sake of a rewrite (D5): a function of R and the header alone."""
        shared = self._tokens.floor_frontier(encoded, rewrite.shared_end)
        return _inside(len(encoded.tokens), max(point, shared))

    def _plan(self, tokens: IntBuffer) -> InputPlan:
        return InputPlan(
            tokens=tokens,
            digests=self._digests.chain_of(tokens),
            recovery_frontier=len(tokens),
            stop_token_ids=self.stop_token_ids,
        )


def _inside(prompt: int, *frontiers: int) -> tuple[int, ...]:
    return tuple(sorted({frontier for frontier in frontiers if 0 < frontier < prompt}))


def _takes_late_system(template: ChatTemplate) -> bool:
    """Whether the template prints a system message that stands behind a user's."""
    messages = [{"role": role, "content": f"{role} text"} for role in ("user", "system", "user")]
    try:
        return "system text" in template.render(messages, (), {}, generation_prompt=True)
    except BadInput:
        return False


def _find_thought_end(tokens: SegmentTokenizer) -> ThoughtEnd | None:
    """What the family's templates write after a thought; None: the model has no token of its own for its end."""
    mark = tuple(tokens.encode_raw(THINK_CLOSE))
    return ThoughtEnd(tuple(tokens.encode_raw(f"\n{THINK_CLOSE}\n\n")), mark[0]) if len(mark) == 1 else None
