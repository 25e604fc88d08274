"""From a unit's rows to the tensors of one forward pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ninfer.base.pools import Pool
from ninfer.kernels.paged_attention import KvPool, plan_decode, plan_prefill
from ninfer.kernels.slots import step_slots
from ninfer.models.hybrid import HybridModel
from ninfer.models.passes import DecodePass, PrefillPass
from ninfer.ports.device import UnitBatch, UnitKind, UnitRow


@dataclass(frozen=True, slots=True)
class PrefillInputs:
    """One row of T tokens."""

    token_ids: Tensor
    run: PrefillPass


@dataclass(frozen=True, slots=True)
class DecodeInputs:
    """B rows of one token. `fresh_slots`: write slots of rows that start from the empty state."""

    token_ids: Tensor
    run: DecodePass
    fresh_slots: tuple[int, ...]


def build_inputs(batch: UnitBatch, model: HybridModel, kv: KvPool) -> PrefillInputs | DecodeInputs:
    """Tensors for the main pool `kv`. All inputs are copied: the rows' views may change afterwards."""
    match batch.kind:
        case UnitKind.PREFILL | UnitKind.REPLAY:
            (row,) = batch.rows
            return _build_prefill(row, model, kv)
        case UnitKind.DECODE:
            return _build_decode(batch.rows, model, kv)
        case UnitKind.VERIFY:
            raise AssertionError("rows of a verify run as prefills, each by itself")


def _build_prefill(row: UnitRow, model: HybridModel, kv: KvPool) -> PrefillInputs:
    tokens = len(row.token_ids)
    cuts = tuple((cut.offset, cut.slot) for cut in row.cuts)
    offsets = [offset for offset, _ in cuts]
    assert offsets == sorted(offsets)
    assert all(0 < offset <= tokens for offset in offsets)
    run = PrefillPass(
        rotary=model.rotary_tables(_int32(row.positions).view(3, tokens)),
        pages=plan_prefill(kv, _int32(row.pages[Pool.MAIN_KV]).long(), row.start, tokens),
        read_slot=row.read_slot,
        write_slot=row.write_slot,
        cuts=cuts,
    )
    return PrefillInputs(_int32(row.token_ids), run)


def _build_decode(rows: tuple[UnitRow, ...], model: HybridModel, kv: KvPool) -> DecodeInputs:
    assert all(len(row.token_ids) == 1 and not row.cuts and not row.overrides for row in rows)
    page_ids = [np.frombuffer(row.pages[Pool.MAIN_KV], dtype=np.int32) for row in rows]
    write_slots = [row.write_slot for row in rows]
    read_slots = [row.write_slot if row.read_slot is None else row.read_slot for row in rows]
    run = DecodePass(
        rotary=model.step_rotary_tables([tuple(row.positions) for row in rows]),
        pages=plan_decode(kv, page_ids, [row.start + 1 for row in rows]),
        slots=step_slots(read_slots, write_slots, kv.device),
    )
    fresh = tuple(row.write_slot for row in rows if row.read_slot is None)
    return DecodeInputs(torch.tensor([row.token_ids[0] for row in rows]), run, fresh)


def _int32(view: memoryview) -> Tensor:
    """A copy of int32 memory."""
    return torch.frombuffer(bytearray(view), dtype=torch.int32)
