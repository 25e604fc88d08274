"""Episodes without facts: small talk, remarks, what lies outside, who the model is, deeds it has no tool for."""

from __future__ import annotations

from training import paraphrase
from training import tools as tool_maker
from training import words as W
from training.phrases import facts as F
from training.phrases import smalltalk as T
from training.phrases import talk_grammar as G
from training.style import REMARK_TIMES, remark
from training.turns import ANSWER, CHAT, Turns
from training.world import draw

_TALK = tuple((tuple(said.split("|")), answer) for said, answer in T.TALK)
_FEELINGS = tuple((tuple(words.split("|")), answer) for words, answer in T.FEELINGS)
_FEELING_TELL = tuple(T.FEELING_TELL.split("|"))
_REMARKS_HELD_OUT = tuple(T.REMARKS_HELD_OUT.split("|"))
_REMARKS, _OUTSIDE = tuple(T.REMARKS.split("|")), tuple(T.OUTSIDE.split("|"))
_NAME_ASK, _WHO_ASK = tuple(T.NAME_ASK.split("|")), tuple(T.WHO_ASK.split("|"))
_NAME_ASK_HELD_OUT = tuple(T.NAME_ASK_HELD_OUT.split("|"))


class TalkEpisodes(Turns):
    """The part of a dialogue that is only talk."""

    def small_talk(self) -> None:
        """Talk with a fixed answer, or a remark."""
        s = self.s
        if s.chance(0.6):
            if s.held_out or s.chance(0.6):
                said, answer = s.pick(_TALK)
                self.user(s.pick(said))
            else:
                patterns, answer = s.pick(G.TALK)
                self.user(s.expand(s.pick(patterns)))
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
        text = s.pick(_OUTSIDE).format(
            place=s.place(),
            n=s.number(1, 99),
            m=s.number(1, 99),
            title=s.title(),
            thing=draw(s, "thing"),
            food=draw(s, "food"),
            word=draw(s, "word"),
            year=s.number(1900, 2030),
        )
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

    def no_tools(self) -> None:
        """A request for a deed when nothing is declared."""
        deed = tool_maker.make_tool(self.s)
        self.user(tool_maker.plain_request(self.s, tool_maker.make_call(self.s, deed)))
        self.reply("I cannot do that. I am a small model.", CHAT, "I have no tools.")
