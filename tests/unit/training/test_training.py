"""The bundled model's training code: splits, rendering, masks, recurrence and seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
jinja2 = pytest.importorskip("jinja2")
from tokenizers import Tokenizer  # noqa: E402

from training import facts as facts_of  # noqa: E402
from training import recurrence as R  # noqa: E402
from training import words as W  # noqa: E402
from training.cases import all_cases, call_case, recall_case  # noqa: E402
from training.data import DEPTH, Marks, batch, encode  # noqa: E402
from training.dialogues import conversation  # noqa: E402
from training.export import load, save  # noqa: E402
from training.loss import Objective  # noqa: E402
from training.model import Model, Stages  # noqa: E402
from training.phrases import facts as F  # noqa: E402
from training.phrases import slots as S  # noqa: E402
from training.phrases import smalltalk as T  # noqa: E402
from training.phrases import tool_texts as TT  # noqa: E402
from training.render import render  # noqa: E402
from training.shape import Shape, fresh_weights  # noqa: E402
from training.source import SYLLABLES_HELD_OUT, SYLLABLES_TRAIN, Source  # noqa: E402

MODEL = Path(__file__).resolve().parents[3] / "src" / "ninfer" / "bundled_model"
TINY = Shape(32, 48, 4096, ("linear_attention", "full_attention"), 2, 1, 16, 2, 16, 4, 4, 1e7, 1e-6)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


def _template() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    return env.from_string((MODEL / "chat_template.jinja").read_text())


# ---- splits ---------------------------------------------------------------------------------------------
def test_syllables_names_and_numbers_are_disjoint() -> None:
    assert not set(SYLLABLES_TRAIN) & set(SYLLABLES_HELD_OUT)
    train, held = Source(1), Source(1, held_out=True)
    assert not {train.name() for _ in range(3000)} & {held.name() for _ in range(3000)}
    assert not {train.place() for _ in range(3000)} & {held.place() for _ in range(3000)}
    assert not {train.number(0, 999) for _ in range(3000)} & {held.number(0, 999) for _ in range(3000)}
    assert not {train.time() for _ in range(3000)} & {held.time() for _ in range(3000)}


@pytest.mark.parametrize(
    ("train", "held_out"),
    [
        (F.NOUN_TELL.train, F.NOUN_TELL.held_out),
        (F.NOUN_ASK.train, F.NOUN_ASK.held_out),
        (S.KIN_TELL.split("|"), S.KIN_TELL_HELD_OUT.split("|")),
        (S.KIN_ASK.split("|"), S.KIN_ASK_HELD_OUT.split("|")),
        (TT.REQUEST.train, TT.REQUEST.held_out),
        (T.PERSONA.split("|"), T.PERSONA_HELD_OUT.split("|")),
        (T.NAME_ASK.split("|"), T.NAME_ASK_HELD_OUT.split("|")),
    ],
)
def test_phrasings_are_disjoint_and_many(train: list[str], held_out: list[str]) -> None:
    assert len(set(train)) >= 20
    assert held_out and not set(train) & set(held_out)


def test_slot_phrasings_and_openers_are_disjoint() -> None:
    assert not set(F.OPENERS.train) & set(F.OPENERS.held_out)
    for key, _, _, tell, ask, _, _ in S.SLOT_TEXTS:
        if key in S.SLOT_HELD_OUT:
            held_tell, held_ask = (set(x.split("|")) for x in S.SLOT_HELD_OUT[key])
            assert not set(tell.split("|")) & held_tell and not set(ask.split("|")) & held_ask


def test_nouns_and_tools_are_disjoint() -> None:
    assert not {n for n, _ in facts_of.NOUNS} & {n for n, _ in facts_of.HELD_OUT_NOUNS}
    loose = {*W.COMMON, *W.OBJECTS, *W.EVENTS, *W.HOBBIES, *W.FOODS, *W.JOBS, *W.ADJECTIVES, *W.WILD}
    for noun, _ in facts_of.HELD_OUT_NOUNS:
        special = noun.removeprefix("favourite ").split()[0]
        assert special not in loose, noun
    assert not {v for v, _, _ in TT.VERBS} & {v for v, _, _ in TT.VERBS_HELD_OUT} and not {
        v for v, _, _ in TT.VERBS_HELD_OUT
    } & set(W.COMMON)
    assert not (set(TT.NOUNS) | loose) & set(TT.NOUNS_HELD_OUT)
    assert not ({p[0] for p in TT.PARAMS} | loose) & {p[0] for p in TT.PARAMS_HELD_OUT}
    assert not {w for p in TT.PARAMS for w in p[3]} & {w for p in TT.PARAMS_HELD_OUT for w in p[3]}


# ---- text -----------------------------------------------------------------------------------------------
def test_generator_renders_as_the_template_does() -> None:
    template = _template()
    for seed in range(60):
        talk = conversation(seed, 1800)
        tools = [t.schema for t in talk.tools]
        assert render(talk.messages, tools) == template.render(
            messages=[m.as_dict() for m in talk.messages], tools=tools or None
        )


def test_generation_prompt_is_the_head_of_a_written_answer() -> None:
    template, talk = _template(), conversation(3, 1200)
    last = max(i for i, m in enumerate(talk.messages) if m.role == "assistant" and not m.reasoning)
    before = [m.as_dict() for m in talk.messages[:last]]
    prompt = template.render(messages=before, tools=[t.schema for t in talk.tools] or None, add_generation_prompt=True)
    assert render(talk.messages, [t.schema for t in talk.tools]).startswith(prompt)


def test_same_seed_same_text_and_other_seed_other_text(tokenizer: Tokenizer) -> None:
    marks = Marks.of(tokenizer)
    one, two, other = (batch(seed, 2, 256, tokenizer, marks) for seed in (5, 5, 9))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_a_word_keeps_its_pieces_wherever_it_stands(tokenizer: Tokenizer) -> None:
    s = Source(4, held_out=True)
    for word in [s.name() for _ in range(50)]:
        bare = tokenizer.encode(word).tokens
        spaced = tokenizer.encode("is " + word).tokens[1:]
        assert spaced[1:] == bare[1:] or spaced == ["\u0120", *bare]


def test_every_byte_is_encodable(tokenizer: Tokenizer) -> None:
    text = "Grüße, 日本 \U0001f600 \x00\x7f é"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


# ---- loss weights ---------------------------------------------------------------------------------------
def test_weights_cover_what_the_model_writes(tokenizer: Tokenizer) -> None:
    marks = Marks.of(tokenizer)
    for seed in range(30):
        talk = conversation(seed, 1500)
        ids, weight = encode(talk, tokenizer, marks)
        written = tokenizer.decode(
            [int(i) for i, w in zip(ids, weight, strict=True) if w >= 0.3], skip_special_tokens=False
        )
        wanted = ""
        for m in talk.messages:
            if m.role == "assistant" and m.weight:
                body = render([m]).split("<think>\n", 1)[1]
                wanted += (body if m.reasoning else body.split("</think>\n\n", 1)[1])[:-1]
        assert written == wanted


# ---- model ----------------------------------------------------------------------------------------------
def _sequential(q: Any, k: Any, v: Any, g: Any, beta: Any) -> Any:
    s = torch.zeros(k.shape[-1], v.shape[-1])
    out = []
    for t in range(q.shape[0]):
        s = s * g[t].exp()
        s = s + torch.outer(k[t], (v[t] - s.T @ k[t]) * beta[t])
        out.append(s.T @ q[t])
    return torch.stack(out)


def test_chunk_form_equals_the_sequential_rule() -> None:
    torch.manual_seed(0)
    n, d = 3 * R.CHUNK, 8
    q, k, v = (torch.randn(n, d) for _ in range(3))
    k = k / k.norm(dim=-1, keepdim=True)
    g, beta = -torch.rand(n) * 0.3, torch.rand(n)
    fold = lambda t: t.view(3, R.CHUNK, *t.shape[1:])  # noqa: E731
    got = R.gated_delta(*map(fold, (q, k, v, g, beta)), 1, Stages(1, compiled=False)).reshape(n, d)
    assert torch.allclose(got, _sequential(q, k, v, g, beta), atol=1e-4)


def test_custom_gradients() -> None:
    torch.manual_seed(1)
    m, n = (torch.randn(1, 3, 2, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(R.ScanStates.apply, (m, n))
    a = torch.randn(1, 64, 64, dtype=torch.float64).mul(0.2).tril(-1).requires_grad_()
    c = torch.randn(64, 64, dtype=torch.float64)
    (mine,) = torch.autograd.grad((R.UnitLowerInverse.apply(a) * c).sum(), a)
    (plain,) = torch.autograd.grad((torch.linalg.inv(torch.eye(64) + a) * c).sum(), a)
    assert torch.allclose(mine, plain.tril(-1), atol=1e-9)


def test_rows_do_not_see_each_other() -> None:
    model = Model(TINY, fresh_weights(TINY, 0, torch.device("cpu")), dtype=torch.float32)
    ids = torch.randint(0, 4000, (2, 128))
    both = model.hidden(ids)[0].view(2, 128, -1)
    alone = model.hidden(ids[1:])[0].view(1, 128, -1)
    assert torch.allclose(both[1], alone[0], atol=1e-5)


def test_draft_chain_equals_stepwise_rows() -> None:
    """The second draft at t sees the first-depth entries up to t and itself, as a decoding round does."""
    model = Model(TINY, fresh_weights(TINY, 2, torch.device("cpu")), dtype=torch.float32)
    ids = torch.randint(0, 4000, (1, 68))
    hidden, turns = model.hidden(ids[:, :64])
    first, k, v = model.mtp(ids[:, 1:65], hidden, turns)
    at = torch.tensor([[20]])
    (second,) = model.mtp_chain(at, ids[:, 22][None, :, None], first[20][None, None], k, v)
    # the same by one causal pass whose entry 21 is fed the draft row instead of the model's row
    mixed = hidden.clone()
    mixed[21] = first[20]
    whole, _, _ = model.mtp(ids[:, 1:65], mixed, turns)
    assert torch.allclose(second[0], whole[21], atol=1e-5)


def test_loss_has_gradients_everywhere_and_weights_survive_a_round_trip(tokenizer: Tokenizer, tmp_path: Path) -> None:
    weights = fresh_weights(TINY, 3, torch.device("cpu"))
    objective = Objective(Model(TINY, weights, dtype=torch.float32), compiled=False)
    made = batch(11, 2, 128, tokenizer, Marks.of(tokenizer))
    ids, weight, at = (torch.from_numpy(x.astype(t)) for x, t in zip(made, ("int64", "float32", "int64"), strict=True))
    total, parts = objective(ids, weight, at)
    total.backward()
    assert len(parts) == 1 + DEPTH and all(
        w.grad is not None and bool(w.grad.abs().sum() > 0) for w in weights.values()
    )
    save(weights, TINY, tmp_path)
    again = load(TINY, tmp_path)
    assert all(torch.equal(again[n], weights[n].detach().bfloat16().float()) for n in weights)


# ---- cases ----------------------------------------------------------------------------------------------
def test_cases_are_seeded_and_keep_their_distance(tokenizer: Tokenizer) -> None:
    count = lambda text: len(tokenizer.encode(text).ids)  # noqa: E731
    case = recall_case(0, 256, count)
    assert case == recall_case(0, 256, count)
    told = render(case.messages).index(case.value)
    assert count(render(case.messages)[told:]) >= 256
    assert call_case(1).answer.calls
    rows = {c.row for c in all_cases(count, 1)}
    assert len(rows) == 9
