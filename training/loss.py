"""The training loss: weighted next-token loss of the model and of the MTP layer, deeper drafts on sampled positions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training.data import AHEAD, DEPTH
from training.model import Model

MTP_SHARE = 0.1  # of each draft depth, against 1 for the model itself


def weighted_nll(hidden: Tensor, table: Tensor, target: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Weighted mean of -log p(target); zero weights are free."""
    logits = F.linear(hidden.to(dtype), table.to(dtype)).float()
    nll = torch.logsumexp(logits, -1) - logits.gather(-1, target[:, None])[:, 0]
    return (nll * weight).sum() / weight.sum().clamp(min=1.0)


class Objective:
    """Losses of one batch."""

    def __init__(self, model: Model, *, compiled: bool) -> None:
        self.model = model
        self.nll: Any = torch.compile(weighted_nll, dynamic=False) if compiled else weighted_nll

    def __call__(self, ids: Tensor, weight: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Total to minimise, and the parts (main, drafts 1 to 3). ids, weight [rows, t + AHEAD]; at [rows, p]."""
        model, table = self.model, self.model.w["model.embed_tokens.weight"]
        rows, t = ids.shape[0], ids.shape[1] - AHEAD
        hidden, turns = model.hidden(ids[:, :t])
        flat = lambda x, shift: x[:, shift : shift + t].reshape(-1)  # noqa: E731
        main = self.nll(hidden, table, flat(ids, 1), flat(weight, 1), model.dtype)
        first, k, v = model.mtp(ids[:, 1 : t + 1], hidden, turns)
        parts = [self.nll(first, table, flat(ids, 2), flat(weight, 2), model.dtype)]
        picked = first.view(rows, t, -1).gather(1, at[..., None].expand(-1, -1, first.shape[-1]))
        tokens = torch.stack([ids.gather(1, at + 2 + d) for d in range(DEPTH - 1)], dim=-1)
        for d, h in enumerate(model.mtp_chain(at, tokens, picked, k, v)):
            target = at + 3 + d
            parts.append(
                weighted_nll(
                    h, table, ids.gather(1, target).reshape(-1), weight.gather(1, target).reshape(-1), model.dtype
                )
            )
        return main + MTP_SHARE * torch.stack(parts).sum(), torch.stack([main.detach(), *(p.detach() for p in parts)])
