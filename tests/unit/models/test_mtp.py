"""The MTP layer against the golden fixtures: the prompt, then a chain of drafts."""

from __future__ import annotations

import pytest
import torch
from model_rig import MODELS, Rig, near

from ninfer.kernels.paged_attention import plan_decode, plan_prefill
from ninfer.kernels.slots import step_slots
from ninfer.models.passes import DecodePass, PrefillPass

BOUND, PAGES = 5e-4, (5, 1)


@pytest.mark.parametrize("name", MODELS)
def test_prompt_and_chain_equal_the_golden(name: str) -> None:
    """[issue A 2] unshifted positions, media rows for placeholders, own KV pool, the target's head."""
    rig = Rig(name)
    golden, length = rig.golden, len(rig.prompt)
    assert rig.mtp is not None
    hidden = rig.prefill(0, length, None, 1)
    first = rig.model.logits(hidden[-1:]).argmax(-1)
    embedded = torch.cat([rig.prompt_rows()[1:], rig.model.embed(first)])
    kv = rig.mtp_memory.kv
    run = PrefillPass(rig.model.rotary_tables(rig.positions), plan_prefill(kv, torch.tensor(PAGES), 0, length), None, 0)
    state_before = rig.memory.states.recurrent.nan_to_num(7.0)
    drafted = rig.mtp.forward(embedded, hidden, run, rig.mtp_memory)
    near(drafted, golden["mtp.hidden"], BOUND)
    near(rig.model.logits(drafted), golden["mtp.logits"], BOUND)
    for side, name_ in enumerate("kv"):
        got = kv[list(PAGES), 0, side].transpose(0, 1).flatten(1, 2)[:, :length]
        near(got, golden[f"mtp.{name_}"], BOUND)
    rows, chain = drafted[-1:], []
    positions = rig.positions[:, -1:]
    for step, want in enumerate(golden["mtp.chain_ids"].tolist()):
        logits = rig.model.logits(rows)
        near(logits[0], golden["mtp.chain_logits"][step], BOUND)
        chain.append(int(logits.argmax()))
        assert chain[-1] == want
        positions = positions + 1
        pages = plan_decode(kv, [PAGES], [length + step + 1])
        run_one = DecodePass(rig.model.rotary_tables(positions), pages, step_slots([0], [0]))
        rows = rig.mtp.forward(rig.model.embed(torch.tensor(chain[-1:])), rows, run_one, rig.mtp_memory)
    assert torch.equal(rig.memory.states.recurrent.nan_to_num(7.0), state_before)
