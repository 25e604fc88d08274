"""The draw against its judge: order of steps, filters, ties, masks, purity."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer.kernels.sampling import DrawInput, cpu, draw, reference
from ninfer.ports.sampling import MIN_REPETITION_PENALTY, SamplingParams

VOCAB = 40


def random_logits(rows: int, seed: int) -> torch.Tensor:
    """Half of the values are drawn from a coarse grid, so that ties are common."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, VOCAB, generator=generator, dtype=torch.float64) * 3
    logits[:, ::2] = logits[:, ::2].round()
    return logits


def drawn(logits: torch.Tensor, rows: Sequence[DrawInput], vocab_tokens: int = VOCAB) -> list[int]:
    return [row.token_id for row in draw(logits.clone(), rows, vocab_tokens)]


params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 17, VOCAB, 1000]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.6, 1.0]),
    presence_penalty=st.sampled_from([0.0, 1.5, -2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.7, -0.5]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    logit_bias=st.dictionaries(st.integers(0, VOCAB + 5), st.floats(-5, 5), max_size=3).map(MappingProxyType),
)
outputs = st.lists(st.integers(0, 29), max_size=8)


@st.composite
def draw_inputs(draw_: Any) -> DrawInput:
    mask = draw_(st.none() | st.binary(min_size=4, max_size=5).filter(lambda bits: bits[0] & 0x0F))
    output = draw_(outputs)
    return DrawInput(
        draw_(params),
        draw_(st.floats(0, 1, exclude_max=True)),
        memoryview(array("i", output)) if output else None,
        mask,
    )


@settings(max_examples=250, deadline=None)
@given(
    rows=st.lists(draw_inputs(), min_size=1, max_size=8),
    seed=st.integers(0, 50),
    vocab=st.sampled_from([VOCAB, 31]),
    head=st.sampled_from([1, 4, 12, 128]),
)
def test_draws_equal_the_judge_in_any_batch(rows: list[DrawInput], seed: int, vocab: int, head: int) -> None:
    """[decision 7] a pure function of the row alone; ids past the tokenizer's are never drawn.

    `head`: of how many tokens the filters look at first, before all are sorted.
    """
    logits = random_logits(len(rows), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "_HEAD_TOKENS", head)
        got = drawn(logits, rows, vocab)
    for row, wanted in enumerate(rows):
        output = [] if wanted.output_ids is None else list(wanted.output_ids)
        values = reference.adjusted(logits[row].tolist(), wanted.params, output, wanted.mask, vocab)
        assert got[row] == reference.choose(values, wanted.params, wanted.uniform)
        assert got[row] < vocab
        assert drawn(logits[row : row + 1], [wanted], vocab) == [got[row]]


def test_greedy_takes_the_lowest_of_equal_ids() -> None:
    logits = torch.zeros(1, 7)
    logits[0, [2, 5]] = 1.0
    assert drawn(logits, [DrawInput(SamplingParams(temperature=0.0), 0.0)], 7) == [2]


def test_inverse_cdf_follows_the_ids() -> None:
    """Uniforms in equal steps give each id its share, in rising order."""
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64).log()
    tokens = [drawn(logits, [DrawInput(SamplingParams(), (i + 0.5) / 10)], 4)[0] for i in range(10)]
    assert tokens == [0, 1, 1, 1, 1, 2, 2, 3, 3, 3]


def test_the_largest_uniform_draws_a_possible_token() -> None:
    logits = torch.full((1, VOCAB), float("-inf"))
    logits[0, 3], logits[0, 9] = 0.0, -1.0
    assert drawn(logits, [DrawInput(SamplingParams(), 1 - 2**-53)]) == [9]


def test_a_tiny_temperature_is_nearly_greedy() -> None:
    logits = random_logits(1, 3).float()
    best = int(logits.argmax())
    logits[0, best] += 0.5
    assert drawn(logits, [DrawInput(SamplingParams(temperature=1e-38), 0.999)]) == [best]


def test_penalties_count_output_only_and_occurrences() -> None:
    """[issue A 6] presence once, frequency per occurrence, repetition by sign."""
    logits = torch.tensor([[2.0, 1.9, -1.0, 0.5]])
    output = memoryview(array("i", [0, 0, 0]))
    presence = SamplingParams(temperature=0.0, presence_penalty=0.2)
    assert drawn(logits, [DrawInput(presence, 0.0, output)], 4) == [1]
    assert drawn(logits, [DrawInput(presence, 0.0, None)], 4) == [0]
    frequency = SamplingParams(temperature=0.0, frequency_penalty=0.04)
    assert drawn(logits, [DrawInput(frequency, 0.0, output)], 4) == [1]
    assert drawn(logits, [DrawInput(frequency, 0.0, output[:2])], 4) == [0]


@pytest.mark.parametrize("alternatives", [0, 3])
def test_logprobs_are_taken_before_temperature_and_filters(alternatives: int) -> None:
    logits = random_logits(2, 1)
    bias = SamplingParams(temperature=0.2, top_k=1, logit_bias=MappingProxyType({4: 2.5}))
    rows = [DrawInput(bias, 0.5, logprobs=alternatives), DrawInput(SamplingParams(), 0.5)]
    first, second = draw(logits.clone(), rows, VOCAB)
    assert second.logprobs is None
    assert first.logprobs is not None
    values = reference.adjusted(logits[0].tolist(), bias, [], None, VOCAB)
    assert first.logprobs.chosen == pytest.approx(reference.logprob(values, first.token_id))
    order = sorted(range(VOCAB), key=lambda token: (-values[token], token))[:alternatives]
    assert [token for token, _ in first.logprobs.top] == order
    for token, value in first.logprobs.top:
        assert value == pytest.approx(reference.logprob(values, token))


@pytest.mark.parametrize("temperature", [1e-46, 1e-300, 5e-324, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("alternatives", [None, 3])
def test_no_small_temperature_draws_outside_the_vocabulary(temperature: float, alternatives: int | None) -> None:
    """A temperature that single precision turns into zero is greedy, not a division by it."""
    logits = torch.randn(2, VOCAB, generator=torch.Generator().manual_seed(5))
    best = logits[:, :VOCAB].argmax(-1).tolist()
    params = SamplingParams(temperature=temperature, repetition_penalty=MIN_REPETITION_PENALTY)
    seen = memoryview(array("i", [1, 2, 3]))
    rows = [DrawInput(params, 1 - 1e-16, seen, None, alternatives), DrawInput(SamplingParams(temperature), 0.5)]
    got = draw(logits, rows, VOCAB)
    assert got[1].token_id == best[1]
    assert 0 <= got[0].token_id < VOCAB
    if alternatives is not None:
        assert got[0].logprobs is not None and math.isfinite(got[0].logprobs.chosen)
