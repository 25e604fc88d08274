"""Every route of `gated_delta` against its judge: chunks, cuts, slots, shared key heads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ninfer.kernels.gated_delta import DeltaInputs, delta_inputs, delta_scan, delta_step, reference
from ninfer.kernels.slots import step_slots

KEY_DIM, VALUE_DIM = 8, 5


def random_inputs(tokens: int, key_heads: int, value_heads: int, dtype: torch.dtype, seed: int = 0) -> DeltaInputs:
    """Inputs as the model makes them: unit keys, decays from nearly none to nearly all."""
    generator = torch.Generator().manual_seed(seed + tokens)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k = normal(tokens, key_heads, KEY_DIM), normal(tokens, key_heads, KEY_DIM)
    q = q / q.norm(dim=-1, keepdim=True)
    k = k / k.norm(dim=-1, keepdim=True)
    log_decay = -torch.exp(2 * normal(tokens, value_heads) - 2)
    values = normal(tokens, value_heads, VALUE_DIM)
    parts = (q, k, values, log_decay, normal(tokens, value_heads).sigmoid())
    return DeltaInputs(*(part.to(dtype) for part in parts))


def piece(inputs: DeltaInputs, rows: slice | list[int]) -> DeltaInputs:
    return DeltaInputs(*(getattr(inputs, name)[rows] for name in ("q", "k", "v", "log_decay", "beta")))


def judge(inputs: DeltaInputs, state: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
    if state is None:
        state = torch.zeros(inputs.v.shape[1], KEY_DIM, VALUE_DIM, dtype=torch.float64)
    return reference.delta_rule(inputs.q, inputs.k, inputs.v, inputs.log_decay, inputs.beta, state)


def poisoned_states(slots: int, heads: int, dtype: torch.dtype) -> Tensor:
    """States of one layer inside wider images, as in an arena; nothing is written yet."""
    return torch.full((slots, 3, heads, KEY_DIM, VALUE_DIM), float("nan"), dtype=dtype)[:, 1]


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize(("key_heads", "value_heads"), [(1, 1), (2, 2), (2, 6)])
@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65, 150])
def test_scan_equals_the_judge(dtype: torch.dtype, bound: float, key_heads: int, value_heads: int, tokens: int) -> None:
    inputs = random_inputs(tokens, key_heads, value_heads, dtype)
    states = poisoned_states(4, value_heads, dtype)
    want, after = judge(inputs)
    got = delta_scan(inputs, states, None, 2)
    torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound)
    torch.testing.assert_close(states[2].double(), after[-1], rtol=bound, atol=bound)
    assert states[[0, 1, 3]].isnan().all()


@settings(max_examples=25, deadline=None)
@given(tokens=st.integers(1, 140), data=st.data())
def test_any_chunking_is_one_scan_and_cuts_keep_full_precision(tokens: int, data: st.DataObject) -> None:
    """Two chunks = one; a cut with a slot leaves the state there, and the slot changes no number [decision 6] [D5]."""
    inputs = random_inputs(tokens, 2, 4, torch.float64)
    cuts = sorted(data.draw(st.sets(st.integers(1, tokens), max_size=3)))
    split = data.draw(st.integers(0, tokens))
    want, after = judge(inputs)
    with_slots, without = poisoned_states(8, 4, torch.float64), poisoned_states(8, 4, torch.float64)
    got = delta_scan(inputs, with_slots, None, 1, tuple((cut, 2 + i) for i, cut in enumerate(cuts)))
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)
    for i, cut in enumerate(cuts):
        torch.testing.assert_close(with_slots[2 + i], after[cut - 1], rtol=1e-11, atol=1e-12)
    same = delta_scan(inputs, without, None, 1, tuple((cut, None) for cut in cuts))
    assert torch.equal(got, same)
    assert torch.equal(with_slots[1], without[1])
    if 0 < split < tokens:
        first = delta_scan(piece(inputs, slice(0, split)), without, None, 6)
        second = delta_scan(piece(inputs, slice(split, None)), without, 6, 7)
        torch.testing.assert_close(torch.cat([first, second]), want, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(without[7], after[-1], rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(without[6], after[split - 1], rtol=1e-11, atol=1e-12)


def test_a_scan_resumed_at_its_own_cut_is_bit_identical() -> None:
    """The same split of the mathematics gives the same bits, resumed or not [decision 8] [D5]."""
    inputs = random_inputs(100, 2, 4, torch.float32)
    states = poisoned_states(5, 4, torch.float32)
    whole = delta_scan(inputs, states, None, 1, ((37, 2),))
    kept = states[2].clone()
    rest = delta_scan(piece(inputs, slice(37, None)), states, 2, 3)
    assert torch.equal(rest, whole[37:])
    assert torch.equal(states[3], states[1])
    assert torch.equal(states[2], kept)


def test_strong_decay_stays_finite() -> None:
    inputs = random_inputs(130, 1, 2, torch.float32)
    inputs.log_decay.fill_(-40.0)
    states = poisoned_states(2, 2, torch.float32)
    want, after = judge(inputs)
    torch.testing.assert_close(delta_scan(inputs, states, None, 1).double(), want, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(states[1].double(), after[-1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("key_heads", "value_heads"), [(2, 2), (1, 4)])
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_step_equals_the_judge(dtype: torch.dtype, bound: float, key_heads: int, value_heads: int, batch: int) -> None:
    """Rows in place and rows to another slot in one batch; the other slot's source keeps its bits [decision 5]."""
    inputs = random_inputs(batch, key_heads, value_heads, dtype, seed=7)
    states = poisoned_states(2 * batch + 2, value_heads, dtype)
    reads = list(range(1, batch + 1))
    writes = [slot if slot % 2 else slot + batch for slot in reads]
    generator = torch.Generator().manual_seed(batch)
    states[reads] = torch.randn(batch, value_heads, KEY_DIM, VALUE_DIM, generator=generator).to(dtype)
    before = states.clone()
    got = delta_step(inputs, states, step_slots(reads, writes))
    for row in range(batch):
        want, after = judge(piece(inputs, [row]), before[reads[row]])
        torch.testing.assert_close(got[row].double(), want[0], rtol=bound, atol=bound)
        torch.testing.assert_close(states[writes[row]].double(), after[0], rtol=bound, atol=bound)
        if reads[row] != writes[row]:
            assert torch.equal(states[reads[row]], before[reads[row]])
    untouched = sorted(set(range(len(states))) - set(writes))
    assert torch.equal(states[untouched].nan_to_num(9.0), before[untouched].nan_to_num(9.0))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_inputs_of_raw_projections(dtype: torch.dtype, bound: float) -> None:
    """eps is added to the sum of squares."""
    generator = torch.Generator().manual_seed(11)
    mixed = torch.randn(3, 2 * 2 * KEY_DIM + 4 * VALUE_DIM, generator=generator).to(dtype)
    mixed[1, :KEY_DIM] *= 1e-3
    b, a = torch.randn(3, 4, generator=generator).to(dtype), torch.randn(3, 4, generator=generator).to(dtype)
    a_log, bias = torch.randn(4, generator=generator).to(dtype), torch.randn(4, generator=generator).to(dtype)
    got = delta_inputs(mixed, b, a, -a_log.exp(), bias, 2, KEY_DIM)
    want = reference.delta_inputs(mixed, b, a, a_log, bias, 2, KEY_DIM)
    for name, value in zip(("q", "k", "v", "log_decay", "beta"), want, strict=True):
        torch.testing.assert_close(getattr(got, name).double(), value, rtol=bound, atol=bound)
