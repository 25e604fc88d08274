"""The state of a conversation being written: its turns, who is talked about, what was told so far."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from training import paraphrase
from training import tools as tool_maker
from training.events import event_fact
from training.facts import bare_fact, count_fact, kin_fact, list_fact, many_fact, noun_fact, thing_fact, verb_fact
from training.phrases import facts as F
from training.phrases import smalltalk as T
from training.phrases import talk_grammar as G
from training.render import Message
from training.source import Source
from training.style import typed
from training.world import ANSWER_SELF, SAME_KIN, USER_SELF, Fact, Forms, capital, forms_of

ANSWER, CALL, ECHO, CHAT = 1.0, 1.0, 0.5, 0.3  # loss weights of assistant turns
SELF: tuple[str, Forms, Forms] = ("", USER_SELF, ANSWER_SELF)
_SYSTEM_ME = forms_of("the user")
_PERSONA_HELD_OUT = tuple(T.PERSONA_HELD_OUT.split("|"))
_PERSONA, _ROLES = tuple(T.PERSONA.split("|")), tuple(T.ROLES.split("|"))
_PLAIN, _BRIEF = tuple(T.PLAIN_SYSTEM.split("|")), tuple(T.BRIEF_SYSTEM.split("|"))
_KIN_SUBJECTS = (
    "sister",
    "brother",
    "mother",
    "father",
    "friend",
    "boss",
    "neighbour",
    "cousin",
    "uncle",
    "aunt",
    "wife",
    "husband",
    "son",
    "daughter",
    "roommate",
    "teacher",
    "grandmother",
    "coach",
    "colleague",
    "best friend",
    "dad",
    "mum",
    "dog",
    "cat",
)


class Turns:
    """One conversation being written. Episodes append turns; `facts` is what the model may be asked later."""

    def __init__(self, source: Source, *, most_tools: int, thinking: float) -> None:
        self.s = source
        self.messages: list[Message] = []
        self.facts: dict[tuple[str, ...], Fact] = {}
        self.order: list[tuple[str, ...]] = []
        self.cast: list[str] = []
        self.named: dict[str, str] = {}
        self.pending: dict[str, Fact] = {}  # relatives whose name stands in the sentence being written
        self.telling = False
        self.thinking = thinking
        self.persona: tuple[str, str] = ("", "")
        self.told_last = ""
        self.focus = ""
        self.brief = False
        self.chars = 0
        # how often another's neutral word answers what was told, so that the fact stands there only once
        self.neutral = 0.4 if source.held_out else source.pick((0.1, 0.4, 0.7, 0.95))
        self.tools: list[tool_maker.Tool] = []
        if most_tools:
            made: list[tool_maker.Tool] = []
            for _ in range(1 + source.below(most_tools)):
                near = source.pick(made) if made and not source.held_out and source.chance(0.55) else None
                made.append(tool_maker.make_tool(source, near))
            self.tools = list({t.name: t for t in made}.values())
            self.chars += sum(len(json.dumps(t.schema)) for t in self.tools)
        self._system()

    # ---- writing turns ------------------------------------------------------------------------------
    def add(self, message: Message) -> None:
        """Append a turn."""
        self.messages.append(message)
        self.chars += len(message.content) + 34 + len(message.reasoning) + sum(len(str(c)) + 60 for c in message.calls)

    def user(self, text: str, *, keep_focus: bool = False, slips: bool = True) -> None:
        """A user turn, typed a little carelessly; without `slips` where its words are copied into a call."""
        if not keep_focus:
            self.focus = ""
        self.add(Message("user", typed(self.s, text, slips=slips)))

    def reply(
        self, text: str, weight: float, thought: str, calls: list[tuple[str, dict[str, Any]]] | None = None
    ) -> None:
        """An assistant turn that the model should learn."""
        reasoning = thought if self.thinking and self.s.chance(self.thinking) else ""
        self.add(Message("assistant", text, reasoning, calls or [], weight))

    def neutral_word(self) -> None:
        """What another assistant might have said instead; nothing to learn from."""
        s = self.s
        text = s.pick(F.NEUTRAL_ACK) if s.held_out or s.chance(0.3) else capital(s.expand(s.pick(G.ACKS)))
        self.add(Message("assistant", text, "", [], 0.0))

    # ---- who and what -------------------------------------------------------------------------------
    def _subject(self, known: bool = False) -> tuple[str, Forms, Forms]:
        r = self.s.random()
        if r < 0.5:
            return SELF
        if r < 0.72 and not self.s.held_out:
            return self._relative(self.s.pick(_KIN_SUBJECTS))
        if self.cast and (known or self.s.chance(0.6)):
            name = self.s.pick(self.cast)
        else:
            name = self.s.name()
            self.cast.append(name)
        forms = forms_of(name)
        return name, forms, forms

    def _relative(self, kin: str) -> tuple[str, Forms, Forms]:
        """A relative or pet by relation; once in a while the name is said along and both can be used later."""
        key = SAME_KIN.get(kin, kin)
        named = self.facts.get(("", "kin", key))
        if not named and self.telling and self.s.chance(0.2):
            named = self.pending[key] = kin_fact(self.s, SELF, kin)
        elif self.s.chance(0.4):
            named = None
        if named:
            if key not in self.pending:
                self.named[key] = named.value
            return key, forms_of(f"my {kin} {named.value}"), forms_of("your " + kin)
        return key, forms_of("my " + kin), forms_of("your " + kin)

    def _alias(self, fact: Fact) -> Fact:
        """The fact asked by relation or by name, where both were told."""
        subject = next((part for part in fact.key if part in self.named), "")
        if not subject or not fact.reply or not fact.reply["I"].startswith("your "):
            return fact
        known = self.facts.get(("", "kin", subject))
        by_name = self.s.chance(0.5) and known is not None and known.value == self.named[subject]
        user = forms_of(self.named[subject] if by_name else "my " + fact.reply["I"][5:])
        reply = user if by_name else fact.reply
        return replace(fact, user=user, reply=reply)

    def new_fact(self, subject: tuple[str, Forms, Forms] | None = None) -> Fact:
        """A fact of any kind, not necessarily new to the conversation."""
        s = self.s
        who = subject or self._subject()
        r = s.random()
        if not s.held_out and s.chance(0.12):
            other = self.sibling(who)
            if other:
                return other
        if r < (0.3 if s.held_out else 0.33):
            return noun_fact(s, who)
        if r < (0.52 if s.held_out else 0.49):
            return verb_fact(s, who)
        if r < 0.68 and who[0] not in ("dog", "cat"):
            return kin_fact(s, who)
        if s.held_out:
            return noun_fact(s, who)
        if r < 0.79:
            return thing_fact(s)
        if r < 0.83:
            return count_fact(s, who)
        if r < 0.89:
            return list_fact(s) if r < 0.86 else bare_fact(s) if r < 0.875 else many_fact(s)
        return event_fact(s, who)

    def sibling(self, who: tuple[str, Forms, Forms]) -> Fact | None:
        """A known noun or relation again, of somebody else: what a careless reader would mix up."""
        alike = (f for f in self.facts.values() if f.change and ("np" in f.extra or "k" in f.extra))
        known = [f for f in alike if f.key[0] != who[0]]
        if not known:
            return None
        like = self.s.pick(known)
        return noun_fact(self.s, who, like) if "np" in like.extra else kin_fact(self.s, who, like.extra["k"])

    def learn(self, fact: Fact) -> None:
        """Remember a told fact as the newest word on its key."""
        if fact.key in self.facts:
            self.order.remove(fact.key)
        self.facts[fact.key] = fact
        self.order.append(fact.key)

    def _unique(self, fact: Fact) -> bool:
        return sum(f.value == fact.value and f.key[-1] == fact.key[-1] for f in self.facts.values()) == 1

    # ---- the system turn ----------------------------------------------------------------------------
    def _system(self) -> None:
        s = self.s
        r = s.random()
        if r < 0.5:
            return
        parts: list[str] = []
        if r < 0.82:
            name, role = s.name(), s.pick(_ROLES)
            if s.chance(0.2):
                role = f"the assistant of {s.title()}"
            line = s.pick(_PERSONA_HELD_OUT) if s.held_out else paraphrase.persona(s, _PERSONA)
            parts.append(line.format(name=name, role=role))
            self.persona = (name, role if "{role}" in line else "")
        elif r < 0.9:
            parts.append(s.pick(_PLAIN))
        if s.chance(0.12):
            parts.append(s.pick(_BRIEF))
            self.brief = True
        if s.chance(0.2) or not parts:
            for _ in range(1 + s.below(3)):
                fact = (noun_fact, verb_fact, kin_fact)[s.below(3)](s, SELF)
                if fact.key in self.facts:
                    continue
                told = replace(fact, user=_SYSTEM_ME, reply={})
                parts.append(capital(told.say(fact.answer)) + ".")
                self.learn(fact)
        if s.chance(0.3):
            s.rng.shuffle(parts)
        self.add(Message("system", " ".join(parts) if s.chance(0.8) else "\n".join(parts)))
