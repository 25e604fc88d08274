"""Whole conversations from episodes: telling, asking, correcting, small talk, tools. Every assistant turn carries its weight."""
# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from training import paraphrase
from training import tools as tool_maker
from training import words as W
from training.events import event_fact
from training.phrases import facts as F
from training.phrases import smalltalk as T
from training.render import Message
from training.source import Source
from training.style import PRONOUNS, REMARK_TIMES, joined, pronoun_form, remark, typed
from training.tool_episodes import ToolEpisodes
from training.world import (
    ANSWER_SELF,
    SAME_KIN,
    USER_SELF,
    Fact,
    Forms,
    bare_fact,
    capital,
    count_fact,
    draw,
    forms_of,
    kin_fact,
    list_fact,
    many_fact,
    noun_fact,
    thing_fact,
    verb_fact,
)

ANSWER, CALL, ECHO, CHAT = 1.0, 1.0, 0.5, 0.3
_SELF: tuple[str, Forms, Forms] = ("", USER_SELF, ANSWER_SELF)
_TALK = tuple((tuple(said.split("|")), answer) for said, answer in T.TALK)
_FEELINGS = tuple((tuple(words.split("|")), answer) for words, answer in T.FEELINGS)
_FEELING_TELL = tuple(T.FEELING_TELL.split("|"))
_REPEAT_AFTER, _REPEAT_LAST, _JUST_TOLD = (tuple(x.split("|")) for x in (T.REPEAT_AFTER, T.REPEAT_LAST, T.JUST_TOLD))
_REMARKS_HELD_OUT = tuple(T.REMARKS_HELD_OUT.split("|"))
_REMARKS, _OUTSIDE = tuple(T.REMARKS.split("|")), tuple(T.OUTSIDE.split("|"))
_ABOUT_ME, _ABOUT_OTHER = tuple(T.ABOUT_ME.split("|")), tuple(T.ABOUT_OTHER.split("|"))
_NAME_ASK, _WHO_ASK = tuple(T.NAME_ASK.split("|")), tuple(T.WHO_ASK.split("|"))
_NAME_ASK_HELD_OUT, _PERSONA_HELD_OUT = tuple(T.NAME_ASK_HELD_OUT.split("|")), tuple(T.PERSONA_HELD_OUT.split("|"))
_PERSONA, _ROLES = tuple(T.PERSONA.split("|")), tuple(T.ROLES.split("|"))
_PLAIN, _BRIEF = tuple(T.PLAIN_SYSTEM.split("|")), tuple(T.BRIEF_SYSTEM.split("|"))
_SYSTEM_ME = forms_of("the user")
_KIN_SUBJECTS = ("sister", "brother", "mother", "father", "friend", "boss", "neighbour", "cousin", "uncle", "aunt", "wife", "husband", "son", "daughter",
                 "roommate", "teacher", "grandmother", "coach", "colleague", "best friend", "dad", "mum", "dog", "cat")  # fmt: skip


class Dialogue(ToolEpisodes):
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
        self.tools: list[tool_maker.Tool] = []
        if most_tools:
            named = {t.name: t for t in (tool_maker.make_tool(source) for _ in range(1 + source.below(most_tools)))}
            self.tools = list(named.values())
            self.chars += sum(len(json.dumps(t.schema)) for t in self.tools)
        self._system()

    # ---- writing turns ------------------------------------------------------------------------------
    def add(self, message: Message) -> None:
        """Append a turn."""
        self.messages.append(message)
        self.chars += len(message.content) + 34 + len(message.reasoning) + sum(len(str(c)) + 60 for c in message.calls)

    def user(self, text: str, *, keep_focus: bool = False) -> None:
        """A user turn, typed a little carelessly."""
        if not keep_focus:
            self.focus = ""
        self.add(Message("user", typed(self.s, text)))

    def reply(
        self, text: str, weight: float, thought: str, calls: list[tuple[str, dict[str, Any]]] | None = None
    ) -> None:
        """An assistant turn that the model should learn."""
        reasoning = thought if self.thinking and self.s.chance(self.thinking) else ""
        self.add(Message("assistant", text, reasoning, calls or [], weight))

    # ---- who and what -------------------------------------------------------------------------------
    def _subject(self, known: bool = False) -> tuple[str, Forms, Forms]:
        r = self.s.random()
        if r < 0.5:
            return _SELF
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
            named = self.pending[key] = kin_fact(self.s, _SELF, kin)
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
        return Fact(
            fact.key,
            fact.kind,
            fact.value,
            fact.answer,
            fact.tell,
            fact.ask,
            fact.check,
            fact.who,
            fact.change,
            user,
            reply,
            fact.extra,
        )

    def new_fact(self, subject: tuple[str, Forms, Forms] | None = None) -> Fact:
        """A fact of any kind, not necessarily new to the conversation."""
        s = self.s
        who = subject or self._subject()
        r = s.random()
        if r < 0.3:
            return noun_fact(s, who)
        if r < 0.52:
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
                fact = (noun_fact, verb_fact, kin_fact)[s.below(3)](s, _SELF)
                if fact.key in self.facts:
                    continue
                told = Fact(
                    fact.key, fact.kind, fact.value, fact.answer, fact.tell, fact.ask, user=_SYSTEM_ME, extra=fact.extra
                )
                parts.append(capital(told.say(fact.answer)) + ".")
                self.learn(fact)
        if s.chance(0.3):
            s.rng.shuffle(parts)
        self.add(Message("system", " ".join(parts) if s.chance(0.8) else "\n".join(parts)))

    # ---- episodes -----------------------------------------------------------------------------------
    def tell(self) -> None:
        """One to four facts in one message; the answer repeats one, thanks for many, or is another's neutral word."""
        s = self.s
        count = s.pick((1, 1, 1, 1, 2, 2, 3, 4))
        self.telling, self.pending = True, {}
        subject = self._subject() if s.chance(0.5) else None
        facts: dict[tuple[str, ...], Fact] = {}
        said: list[str] = []
        for _ in range(count):
            fact = self.new_fact(subject)
            if fact.key in self.facts or fact.key in facts:
                continue
            sentence = paraphrase.tell(s, fact)
            if said and subject and subject is not _SELF and fact.user is subject[1] and s.chance(0.4):
                sentence = pronoun_form(s, fact)
            facts[fact.key] = fact
            said.append(sentence)
        self.telling = False
        if not said:
            return
        self.user(joined(s, said))
        self._learn_pending()
        for fact in facts.values():
            self.learn(fact)
        told = list(facts.values())
        self.told_last = " ".join(f.sentence() for f in told)
        self.focus = told[-1].reply.get("I", "you")
        if s.chance(0.4):
            self.add(Message("assistant", s.pick(F.NEUTRAL_ACK), "", [], 0.0))
        elif len(told) > 2:
            self.reply(F.MANY_ACK, ECHO, "The user tells me several things to remember.")
        else:
            text = "Got it. " + " ".join(f.sentence() for f in told)
            self.reply(text, ECHO, "The user tells me: " + " and ".join(f.answer_text() for f in told) + ".")

    def tell_event(self) -> None:
        """When and where of one happening in one sentence."""
        s = self.s
        facts: list[Fact] = []
        first = thing_fact(s, "when")
        facts = [first, *(thing_fact(s, key, first.extra["t"]) for key in ("date", "room") if s.chance(0.6))]
        if any(f.key in self.facts for f in facts):
            return self.tell()
        parts = {"when": "at {v}", "date": "on {v}", "room": "in room {v}"}
        said = [parts[f.key[0]].format(v=f.value) for f in facts]
        s.rng.shuffle(said)
        opening = s.pick(
            (
                "the {t} is",
                "my {t} is",
                "I have a {t}",
                "there is a {t}",
                "the {t} will be",
                "we meet for the {t}",
                "our {t} takes place",
                "remember, the {t} is",
            )
        )
        self.user(opening.format(t=first.extra["t"]) + " " + " ".join(said) + ".")
        for f in facts:
            self.learn(f)
        if s.chance(0.4):
            return self.add(Message("assistant", s.pick(F.NEUTRAL_ACK), "", [], 0.0))
        text = "Got it. " + " ".join(f.sentence() for f in facts)
        return self.reply(text, ECHO, "The user tells me: " + " and ".join(f.answer_text() for f in facts) + ".")

    def copy(self) -> None:
        """Saying again: given words, the last answer, the newest fact."""
        s = self.s
        r = s.random()
        last = self.messages[-1] if self.messages else None
        if r < 0.6:
            words = [
                s.pick((s.name, s.place, s.code, lambda: s.word(W.COMMON, 0.8), lambda: s.word(W.OBJECTS, 0.8)))()
                for _ in range(1 + s.below(5))
            ]
            text = " ".join(words)
            self.add(
                Message(
                    "user", capital(s.pick(_REPEAT_AFTER)).replace("{x}", s.pick(("{}", "{}", '"{}"')).format(text))
                )
            )
            self.reply(text, ANSWER, "The user wants me to repeat words.")
        elif r < 0.8 and last and last.role == "assistant" and last.content and not last.calls:
            self.user(s.pick(_REPEAT_LAST))
            self.reply(last.content, ANSWER, "The user wants to hear my last answer again.")
        elif self.told_last:
            self.user(s.pick(_JUST_TOLD))
            self.reply(self.told_last, ANSWER, "The user asks for the newest thing I was told.")

    def no_tools(self) -> None:
        """A request for a deed when nothing is declared."""
        deed = tool_maker.make_tool(self.s)
        self.user(tool_maker.plain_request(self.s, tool_maker.make_call(self.s, deed)))
        self.reply("I cannot do that. I am a small model.", CHAT, "I have no tools.")

    def _recall(self) -> Fact | None:
        """A known fact: any distance, sometimes one of the newest."""
        if not self.order:
            return None
        recent = self.s.chance(0.25)
        return self._alias(self.facts[self.s.pick(self.order[-4:] if recent else self.order)])

    def _with_pronoun(self, fact: Fact) -> Fact:
        """He or she instead of the person talked about just before."""
        who = fact.reply.get("I", "you")
        before, self.focus = self.focus, who
        if who == "you" or who != before or self.s.chance(0.5):
            return fact
        forms = self.s.pick(PRONOUNS)
        return Fact(
            fact.key,
            fact.kind,
            fact.value,
            fact.answer,
            fact.tell,
            fact.ask,
            fact.check,
            fact.who,
            fact.change,
            forms,
            fact.reply,
            fact.extra,
        )

    def _learn_pending(self) -> None:
        """Names said along with a relation count as told when they really stand in the newest turn."""
        for key, fact in self.pending.items():
            if fact.value in self.messages[-1].content and fact.key not in self.facts:
                self.learn(fact)
                self.named[key] = fact.value
        self.pending = {}

    def _same_person(self) -> Fact | None:
        keys = [k for k in self.order if self.focus not in ("", "you") and self.facts[k].reply.get("I") == self.focus]
        return self.facts[self.s.pick(keys)] if keys else None

    def tell_and_ask(self) -> None:
        """Facts and a question in one message: only the question is answered."""
        s = self.s
        facts = [f for f in (self.new_fact() for _ in range(1 + s.below(2))) if f.key not in self.facts]
        if not facts:
            return self.ask()
        asked = s.pick(facts)
        if len({f.key for f in facts}) < len(facts):
            facts = [asked]
        for f in facts:
            self.learn(f)
        if self.order and s.chance(0.2):
            asked = self.facts[s.pick(self.order)]
        told = joined(s, [paraphrase.tell(s, f) for f in facts])
        self.user(told + s.pick((" ", " ", " So ", " And now, ", " Now tell me: ")) + capital(paraphrase.ask(s, asked)))
        return self.reply(
            asked.sentence(), ANSWER, f"The user asks what I was told. I was told: {asked.answer_text()}."
        )

    def ask(self) -> None:
        """A question about something told."""
        fact = (self._same_person() if self.s.chance(0.12) else None) or self._recall()
        if fact is None:
            return self.ask_unknown()
        s = self.s
        fact = self._with_pronoun(fact)
        r = s.random()
        if fact.who and r < 0.2 and self._unique(fact):
            self.user(fact.say(s.pick(fact.who)), keep_focus=True)
        elif fact.check and r < 0.4:
            return self._ask_check(fact)
        else:
            self.user(paraphrase.ask(s, fact), keep_focus=True)
        text = capital(fact.value) if self.brief and fact.kind not in ("event", "list", "result") else fact.sentence()
        return self.reply(text, ANSWER, f"The user asks what I was told. I was told: {fact.answer_text()}.")

    def _ask_check(self, fact: Fact) -> None:
        s = self.s
        right = s.chance(0.5)
        other = fact.value if right else draw(s, fact.kind)
        right = other == fact.value
        self.user(fact.say(s.pick(fact.check), v=other), keep_focus=True)
        text = ("Yes, " if right else "No, ") + fact.answer_text() + "."
        if self.brief:
            text = "Yes." if right else "No."
        self.reply(text, ANSWER, f"The user wants to check something. I was told: {fact.answer_text()}.")

    def ask_two(self) -> None:
        """Two questions in one message, two sentences in the answer."""
        first, second = self._recall(), self._recall()
        if first is None or second is None or first.key == second.key:
            return self.ask()
        s = self.s
        one, two = first.say(s.pick(first.ask)), paraphrase.ask(s, second)
        self.user(one.rstrip("?.") + " and " + two if s.chance(0.7) else capital(one) + " " + capital(two))
        return self.reply(
            f"{first.sentence()} {second.sentence()}",
            ANSWER,
            f"The user asks two things. I was told: {first.answer_text()} and {second.answer_text()}.",
        )

    def ask_unknown(self) -> None:
        """A question about something never told."""
        s = self.s
        fact = self.new_fact(self._subject(known=True))
        for _ in range(4):
            if fact.key not in self.facts:
                break
            fact = self.new_fact(self._subject(known=True))
        if fact.key in self.facts:
            return
        who = fact.who and s.chance(0.15) and not any(f.value == fact.value for f in self.facts.values())
        self.user(fact.say(s.pick(fact.who)) if who else paraphrase.ask(s, fact))
        self.reply(F.NOT_TOLD, ANSWER, "The user asks something that I was not told.")

    def change(self) -> None:
        """A correction: the newest word wins."""
        fact = self._recall()
        if fact is None or fact.kind in ("event", "list", "result"):
            return self.tell()
        s = self.s
        new = Fact(
            fact.key,
            fact.kind,
            draw(s, fact.kind),
            fact.answer,
            fact.tell,
            fact.ask,
            fact.check,
            fact.who,
            fact.change,
            fact.user,
            fact.reply,
            fact.extra,
        )
        text = paraphrase.change(s, new, fact.value)
        self.user(text)
        self.learn(new)
        if s.chance(0.3):
            self.add(Message("assistant", s.pick(F.NEUTRAL_ACK), "", [], 0.0))
            return None
        return self.reply(f"Got it. {new.sentence()}", ECHO, f"The user corrects something. Now {new.answer_text()}.")

    def small_talk(self) -> None:
        """Talk with a fixed answer, or a remark."""
        s = self.s
        if s.chance(0.6):
            said, answer = s.pick(_TALK)
            self.user(s.pick(said))
            self.reply(answer, CHAT, "The user makes small talk.")
        elif s.chance(0.25) and not s.held_out:
            feelings, answer = s.pick(_FEELINGS)
            self.user(
                s.pick(_FEELING_TELL).format(a=s.pick(feelings), c=remark(s), k=s.pick(W.KIN).replace("-", " ")) + "."
            )
            self.reply(answer, CHAT, "The user tells me a feeling.")
        elif s.chance(0.5) and not s.held_out:
            self.user(remark(s) + s.pick(REMARK_TIMES) + ".")
            self.reply(T.REMARK_ANSWER, CHAT, "The user makes a remark.")
        else:
            self.user(s.pick(_REMARKS_HELD_OUT if s.held_out else _REMARKS) + s.pick(T.REMARK_ADVERBS) + ".")
            self.reply(T.REMARK_ANSWER, CHAT, "The user makes a remark.")

    def outside(self) -> None:
        """General knowledge, which the model does not have."""
        s = self.s
        text = s.pick(_OUTSIDE).format(place=s.place(), n=s.number(1, 99), m=s.number(1, 99), title=s.title(), thing=draw(s, "thing"), food=draw(s, "food"),
                                       word=draw(s, "word"), year=s.number(1900, 2030))  # fmt: skip
        self.user(text)
        self.reply(F.NOT_KNOWN, ANSWER * 0.6, "This is not something I was told.")

    def identity(self) -> None:
        """Who the model is: the system prompt's persona, or its own name."""
        s = self.s
        name, role = self.persona
        if s.chance(0.65):
            self.user(s.pick(_NAME_ASK_HELD_OUT) if s.held_out else paraphrase.name_question(s, _NAME_ASK))
            self.reply(f"My name is {name or T.DEFAULT_NAME}.", ANSWER, "The user asks for my name.")
        else:
            self.user(s.pick(_WHO_ASK))
            text = (f"I am {name}, {role}." if role else f"I am {name}.") if name else T.DEFAULT_WHO
            self.reply(text, ANSWER, "The user asks who I am.")

    def about(self) -> None:
        """All that is known about the user or one person, when that is little."""
        s = self.s
        subject = "" if s.chance(0.6) or not self.cast else s.pick(self.cast)
        known = [
            f
            for key, f in self.facts.items()
            if f.reply and (key[1] if key[0] in ("event", "count") else key[0]) == subject
        ]
        if len(known) > 4 or any(f.kind == "name" and f.value == subject for f in self.facts.values() if subject):
            return self.ask()
        known.sort(key=lambda f: self.order.index(f.key))
        self.user(s.pick(_ABOUT_ME) if not subject else s.pick(_ABOUT_OTHER).format(name=subject))
        if not known:
            return self.reply(F.NOT_TOLD, ANSWER * 0.5, "The user asks something that I was not told.")
        return self.reply(
            " ".join(f.sentence() for f in known), ANSWER, f"The user asks for all I know: {len(known)} things."
        )


Episode = Callable[[Dialogue], None]
_TALKING: tuple[tuple[float, Episode], ...] = (
    (0.26, Dialogue.tell), (0.02, Dialogue.tell_event), (0.03, Dialogue.tell_and_ask), (0.30, Dialogue.ask), (0.04, Dialogue.ask_two), (0.07, Dialogue.ask_unknown), (0.08, Dialogue.change),
    (0.08, Dialogue.small_talk), (0.04, Dialogue.outside), (0.04, Dialogue.identity), (0.03, Dialogue.about), (0.03, Dialogue.copy), (0.01, Dialogue.no_tools),
)  # fmt: skip


def conversation(seed: int, chars: int, *, held_out: bool = False) -> Dialogue:
    """One conversation of about `chars` characters, decided by the seed alone."""
    s = Source(seed, held_out=held_out)
    s.lower = s.chance(0.12)
    thinking = 1.0 if s.chance(0.15) else 0.3 if s.chance(0.1) else 0.0
    most = 1 if chars < 1500 else 2 if chars < 3000 else 4
    talk = Dialogue(s, most_tools=most if s.chance(0.35) else 0, thinking=thinking)
    if not talk.order and s.chance(0.7):
        s.pick((Dialogue.tell, Dialogue.tell, Dialogue.small_talk, Dialogue.identity))(talk)
    while talk.chars < chars:
        if talk.tools and s.chance(0.3):
            (Dialogue.unrelated if s.chance(0.12) else Dialogue.use_tool)(talk)
            continue
        r, episode = s.random(), Dialogue.ask
        for share, candidate in _TALKING:
            r -= share
            if r < 0:
                episode = candidate
                break
        if episode is Dialogue.no_tools and talk.tools:
            continue
        episode(talk)
    return talk


def plain_text(seed: int, chars: int) -> str:
    """Sentences without any chat marks, for raw continuation."""
    s = Source(seed)
    talk = Dialogue(s, most_tools=0, thinking=0.0)
    names = [forms_of(s.name()) for _ in range(3)]
    out: list[str] = []
    while sum(map(len, out)) < chars:
        forms = s.pick(names)
        out.append(talk.new_fact((forms["I"], forms, forms)).sentence())
    return " ".join(out)
