"""Episodes about facts: telling, asking, checking, correcting, repeating."""

from __future__ import annotations

from dataclasses import replace

from training import paraphrase
from training import words as W
from training.facts import not_told, thing_fact
from training.phrases import facts as F
from training.phrases import smalltalk as T
from training.render import Message
from training.style import PRONOUNS, joined, pronoun_form, remark
from training.turns import ANSWER, ECHO, SELF, Turns
from training.world import Fact, capital, draw

_REPEAT_AFTER, _REPEAT_LAST, _JUST_TOLD = (tuple(x.split("|")) for x in (T.REPEAT_AFTER, T.REPEAT_LAST, T.JUST_TOLD))
_ABOUT_ME, _ABOUT_OTHER = tuple(T.ABOUT_ME.split("|")), tuple(T.ABOUT_OTHER.split("|"))


class FactEpisodes(Turns):
    """The part of a dialogue that tells and asks facts."""

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
            if said and subject and subject is not SELF and fact.user is subject[1] and s.chance(0.4):
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
        if s.chance(self.neutral):
            self.neutral_word()
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
        if s.chance(self.neutral):
            return self.neutral_word()
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

    def _recall(self) -> Fact | None:
        """A known fact: any distance, often an early one, one of the newest, or one that no answer holds yet."""
        if not self.order:
            return None
        early = not self.s.held_out and self.s.chance(0.4)
        if not self.s.held_out and self.s.chance(0.45):
            said = "\n".join(m.content for m in self.messages if m.role == "assistant")
            fresh = [key for key in self.order if self.facts[key].value not in said]
            if fresh:
                return self._alias(self.facts[self.s.pick(fresh[: 1 + len(fresh) // 3] if early else fresh)])
        if early:
            return self._alias(self.facts[self.s.pick(self.order[: 1 + len(self.order) // 4])])
        recent = self.s.chance(0.25)
        return self._alias(self.facts[self.s.pick(self.order[-4:] if recent else self.order)])

    def _with_pronoun(self, fact: Fact) -> Fact:
        """He or she instead of the person talked about just before."""
        who = fact.reply.get("I", "you")
        before, self.focus = self.focus, who
        if who == "you" or who != before or self.s.chance(0.5):
            return fact
        forms = self.s.pick(PRONOUNS)
        return replace(fact, user=forms)

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
            text = paraphrase.ask(s, fact)
            if not s.held_out and s.chance(0.12):
                text = remark(s) + s.pick((". ", ". so ", ", ", " lol ", "! ", ". anyway, ", "... ")) + text
            self.user(text, keep_focus=True)
        return self.reply(
            self.answer_to(fact), ANSWER, f"The user asks what I was told. I was told: {fact.answer_text()}."
        )

    def answer_to(self, fact: Fact) -> str:
        """The canonical answer: a sentence, or the bare value where the system turn asked for brevity."""
        brief = self.brief and fact.kind not in ("event", "list", "result")
        return fact.value if brief else fact.sentence()

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
        for attempt in range(5):
            who = self._subject(known=True)
            near = self.sibling(who) if attempt < 2 and not s.held_out and s.chance(0.4) else None
            fact = near or self.new_fact(who)
            if fact.key not in self.facts:
                break
        if fact.key in self.facts:
            return
        who = fact.who and s.chance(0.15) and not any(f.value == fact.value for f in self.facts.values())
        self.user(fact.say(s.pick(fact.who)) if who else paraphrase.ask(s, fact))
        answer = F.NOT_TOLD if who else self.answer_unknown(fact)
        self.reply(answer, ANSWER, "The user asks something that I was not told.")

    def answer_unknown(self, fact: Fact) -> str:
        """The canonical answer when nothing was told: the same words as the other up to the value."""
        return F.NOT_TOLD if self.brief else not_told(fact)

    def change(self) -> None:
        """A correction: the newest word wins."""
        fact = self._recall()
        if fact is None or fact.kind in ("event", "list", "result"):
            return self.tell()
        s = self.s
        new = replace(fact, value=draw(s, fact.kind))
        text = paraphrase.change(s, new, fact.value)
        self.user(text)
        self.learn(new)
        if s.chance(self.neutral):
            return self.neutral_word()
        return self.reply(f"Got it. {new.sentence()}", ECHO, f"The user corrects something. Now {new.answer_text()}.")

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
