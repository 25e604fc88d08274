"""What training texts may hold: nothing of the evaluation, and everything that a call must copy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("tokenizers")

from training.cases import TRIAL, all_cases, call_case, change_case, recall_case, unknown_case
from training.dialogues import conversation
from training.facts import count_fact, kin_fact, list_fact, many_fact, not_told, noun_fact, thing_fact, verb_fact
from training.phrases import grammar as G
from training.phrases import held_out as H
from training.phrases import smalltalk as T
from training.phrases import talk_grammar as TG
from training.phrases import tool_texts as TT
from training.source import SYLLABLES_HELD_OUT, Source
from training.world import ANSWER_SELF, USER_SELF, forms_of

TRAINING = Path(__file__).resolve().parents[3] / "training"
MARKER = re.compile(r"\{\w+\}")


@pytest.mark.parametrize("template", H.sentences())
def test_each_kept_phrasing_is_recognised(template: str) -> None:
    assert H.is_kept("Well, " + MARKER.sub("zz", template.replace("{s}", "s")))


def test_training_conversations_hold_no_phrasing_of_the_evaluation() -> None:
    for seed in range(60_000, 60_500):
        for message in conversation(seed, 1500).messages:
            if message.role in ("user", "system"):
                assert not H.is_kept(message.content), message.content


def test_evaluation_questions_are_made_of_kept_phrasings() -> None:
    count = lambda text: len(text) // 4  # noqa: E731
    for i in range(30):
        for case in (recall_case(i, 256, count), unknown_case(i), change_case(i)):
            assert H.is_kept(case.messages[-1].content), case.messages[-1].content
        assert H.is_kept(call_case(i).messages[-1].content)


def test_whole_conversations_of_the_evaluation_can_be_drawn() -> None:
    for seed in range(800_000_000, 800_000_200):
        assert len(conversation(seed, 1500, held_out=True).messages) > 4


def test_ways_to_say_arguments_are_disjoint() -> None:
    s = Source(3)
    said = {s.expand(s.pick(G.EXPLICIT)) for _ in range(6000)}
    assert len(said) > 300
    assert any(map(H.is_kept_way, TT.EXPLICIT_HELD_OUT))
    kept = {way.lower() for way in TT.EXPLICIT_HELD_OUT}
    for seed in range(70_000, 70_200):
        talk = conversation(seed, 1200)
        shown = [p.replace("_", " ") for t in talk.tools for p in t.schema["function"]["parameters"]["properties"]]
        for way in kept:
            for name in shown:
                start = way.replace("{p}", name).split("{v}")[0].strip()
                if start != "taking":  # the rest of that way comes behind the value
                    users = (m.content.lower() for m in talk.messages if m.role == "user")
                    assert not any(start.lower() in text for text in users), (start, seed)


def test_made_up_words_of_training_are_none_of_the_evaluation() -> None:
    train, held = Source(11), Source(12, held_out=True)
    words = {train.fragments(False) for _ in range(20_000)}
    kept = re.compile(f"(?:{'|'.join(SYLLABLES_HELD_OUT)})+(?:[nrlsxm]|th|lt|nd)?")
    assert len(words) > 15_000
    assert all(kept.fullmatch(held.invented(False)) for _ in range(500))
    assert not any(kept.fullmatch(word) or word in H.WORDS for word in words)


def test_made_up_words_reach_every_letter_pair_of_the_evaluation() -> None:
    """A name of the evaluation is new as a whole, never in its smallest parts: copying them must have been learned."""
    pairs = lambda word: {word[i : i + 2] for i in range(len(word) - 1)}  # noqa: E731
    train, held = Source(13), Source(14, held_out=True)
    seen = set().union(*(pairs(train.fragments(False)) for _ in range(20_000)))
    assert not set().union(*(pairs(held.invented(False)) for _ in range(5_000))) - seen


def test_what_a_call_holds_stands_in_the_talk_before_it() -> None:
    """Slips and short forms never touch an argument."""
    seen = 0
    for seed in range(80_000, 80_250):
        talk = conversation(seed, 1500)
        for i, message in enumerate(talk.messages):
            said = " ".join(m.content for m in talk.messages[max(0, i - 3) : i] if m.role == "user")
            for _, arguments in message.calls:
                for value in arguments.values():
                    texts = value if isinstance(value, list) else [value]
                    for text in (t for t in texts if isinstance(t, str)):
                        assert text in said, (seed, text, said)
                        seen += 1
    assert seen > 50


def test_patterns_have_balanced_choices() -> None:
    s = Source(5)
    tables = (
        G.NOUN_TELL,
        G.NOUN_ASK,
        G.KIN_TELL,
        G.KIN_ASK,
        G.NAME_ASK,
        G.PERSONA,
        G.REQUEST,
        G.EXPLICIT,
        TG.ACKS,
        *(patterns for patterns, _ in TG.TALK),
    )
    slots = [patterns for pair in G.SLOTS.values() for patterns in pair]
    for pattern in (p for table in (*tables, *slots) for p in table):
        for _ in range(5):
            assert not re.search(r"[|()]", s.expand(pattern).replace("({p}", "")), pattern


def test_small_talk_has_one_answer_an_intent() -> None:
    assert {answer for _, answer in TG.TALK} <= {answer for _, answer in T.TALK}


def test_no_pattern_of_small_talk_writes_a_free_question() -> None:
    """The forty questions stay questions that training has not seen, as far as whole sentences go."""
    choice = re.compile(r"([.?!*+])")
    patterns = [re.compile(choice.sub(r"\\\1", p).lower()) for patterns, _ in TG.TALK for p in patterns]
    typed = [
        part.strip().lower()
        for line in (TRAINING / "free_questions.jsonl").read_text().splitlines()
        for message in json.loads(line)["messages"][-1:]  # the one that is to be answered
        if message["role"] == "user"
        for part in (message["content"], *re.split(r"[.!?,] ", message["content"]))
    ]
    alike = [text for text in typed if len(text.split()) > 3 and any(p.fullmatch(text) for p in patterns)]
    assert any(p.fullmatch("i had a terrible day at work.") for p in patterns)
    assert not alike


def test_a_thing_that_no_sentence_may_hold_ends_its_conversation() -> None:
    """A made-up value can itself be a kept phrasing: the conversation is drawn anew instead of for ever."""
    with pytest.raises(H.Unwritable):
        H.allowed(lambda: "Well, my badge number is aged 7.")


def test_a_kept_word_is_no_part_of_a_longer_one() -> None:
    assert H.is_kept("well, Rex is aged 7") and not H.is_kept("I closed my agedo.")
    for seed in (100_053_630, 104_030_567):  # these held such words and never ended
        assert len(conversation(seed, 1001).messages) > 4


def test_told_and_not_told_part_no_earlier_than_at_the_value() -> None:
    """Whether something was told is decided where its value would be copied from, never by the first word."""
    s = Source(21)
    who = (("", USER_SELF, ANSWER_SELF), ("Anna", forms_of("Anna"), forms_of("Anna")))
    seen = set()
    for _ in range(2_000):
        subject = s.pick(who)
        make = s.pick((verb_fact, kin_fact, noun_fact, count_fact))
        fact = make(s, subject) if s.chance(0.7) else s.pick((thing_fact, list_fact, many_fact))(s)
        told, missing = fact.sentence(), not_told(fact)
        shared = told.split(fact.value)[0].rsplit(" a ", 1)[0].rsplit(" an ", 1)[0].removesuffix(" room ").strip()
        assert missing.startswith(shared) and missing.endswith("you have not told me."), (told, missing)
        seen.add(fact.answer)
    assert len(seen) > 25


def test_pieces_of_the_vocabulary_stand_inside_made_up_words() -> None:
    """What no answer ever held behind its first piece cannot be copied there ("father" in a new compound)."""
    s = Source(22)
    words = " ".join(s.fragments(False) for _ in range(60_000))
    for piece in ("father", "sister", "house", "tor", "rab", "ster", "chi", "spe", "pu", "ouch"):
        assert len(re.findall(rf"\w{piece}", words)) > 10, piece


def test_relatives_and_nouns_are_answered_alike() -> None:
    """An unheard-of word tells nobody whether it is a person or a thing."""
    s = Source(23)
    me = ("", USER_SELF, ANSWER_SELF)
    assert kin_fact(s, me, "flonk").sentence().startswith("Your flonk is ")


def test_cases_looked_at_while_training_are_none_of_the_report() -> None:
    count = lambda text: len(text) // 4  # noqa: E731
    report = {repr(case.messages) for case in all_cases(count, 3)}
    trial = [repr(case.messages) for case in all_cases(count, 3, TRIAL)]
    assert len(report) == len(trial) == 27 and not report.intersection(trial)
