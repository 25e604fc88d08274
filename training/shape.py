"""Sizes of the bundled model, its tensors by their checkpoint names, and its initial weights."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes from config.json."""

    hidden: int
    inner: int
    vocab: int
    kinds: tuple[str, ...]
    heads: int
    kv_heads: int
    head_dim: int
    gdn_heads: int
    gdn_dim: int
    taps: int
    rotary: int
    theta: float
    eps: float

    @classmethod
    def load(cls, folder: Path) -> Shape:
        """Read a config of the family's text class."""
        c = json.loads((folder / "config.json").read_text())
        assert c["linear_num_key_heads"] == c["linear_num_value_heads"]
        assert c["linear_key_head_dim"] == c["linear_value_head_dim"] and c["tie_word_embeddings"]
        rope = c["rope_parameters"]
        return cls(
            c["hidden_size"],
            c["intermediate_size"],
            c["vocab_size"],
            tuple(c["layer_types"]),
            c["num_attention_heads"],
            c["num_key_value_heads"],
            c["head_dim"],
            c["linear_num_key_heads"],
            c["linear_key_head_dim"],
            c["linear_conv_kernel_dim"],
            int(c["head_dim"] * rope["partial_rotary_factor"]),
            rope["rope_theta"],
            c["rms_norm_eps"],
        )


def _layer_shapes(s: Shape, prefix: str, full: bool) -> dict[str, tuple[int, ...]]:
    wide = s.gdn_heads * s.gdn_dim
    out: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (s.hidden,),
        "post_attention_layernorm.weight": (s.hidden,),
    }
    if full:
        d = s.head_dim
        out |= {
            "self_attn.q_proj.weight": (s.heads * 2 * d, s.hidden),
            "self_attn.k_proj.weight": (s.kv_heads * d, s.hidden),
            "self_attn.v_proj.weight": (s.kv_heads * d, s.hidden),
            "self_attn.o_proj.weight": (s.hidden, s.heads * d),
            "self_attn.q_norm.weight": (d,),
            "self_attn.k_norm.weight": (d,),
        }
    else:
        out |= {
            "linear_attn.in_proj_qkv.weight": (3 * wide, s.hidden),
            "linear_attn.in_proj_z.weight": (wide, s.hidden),
            "linear_attn.in_proj_b.weight": (s.gdn_heads, s.hidden),
            "linear_attn.in_proj_a.weight": (s.gdn_heads, s.hidden),
            "linear_attn.conv1d.weight": (3 * wide, 1, s.taps),
            "linear_attn.A_log": (s.gdn_heads,),
            "linear_attn.dt_bias": (s.gdn_heads,),
            "linear_attn.norm.weight": (s.gdn_dim,),
            "linear_attn.out_proj.weight": (s.hidden, wide),
        }
    out |= {
        "mlp.gate_proj.weight": (s.inner, s.hidden),
        "mlp.up_proj.weight": (s.inner, s.hidden),
        "mlp.down_proj.weight": (s.hidden, s.inner),
    }
    return {prefix + name: shape for name, shape in out.items()}


def tensor_shapes(s: Shape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint, in file order."""
    out: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (s.vocab, s.hidden)}
    for i, kind in enumerate(s.kinds):
        out |= _layer_shapes(s, f"model.layers.{i}.", kind == "full_attention")
    out["model.norm.weight"] = (s.hidden,)
    out["mtp.fc.weight"] = (s.hidden, 2 * s.hidden)
    out |= {f"mtp.{name}.weight": (s.hidden,) for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}
    return out | _layer_shapes(s, "mtp.layers.0.", True)


def fresh_weights(s: Shape, seed: int, device: torch.device) -> Weights:
    """Initial weights, decided by the seed."""
    gen = torch.Generator().manual_seed(seed)
    weights: Weights = {}
    for name, shape in tensor_shapes(s).items():
        if name.endswith("A_log"):
            w = torch.empty(shape).uniform_(1, 16, generator=gen).log()
        elif name.endswith("dt_bias"):
            dt = torch.empty(shape).uniform_(math.log(1e-3), math.log(1e-1), generator=gen).exp()
            w = dt + torch.log(-torch.expm1(-dt))
        elif name.endswith("conv1d.weight"):
            w = torch.empty(shape).uniform_(-0.5, 0.5, generator=gen)
        elif name.endswith("linear_attn.norm.weight"):
            w = torch.ones(shape)
        elif len(shape) == 1:
            w = torch.zeros(shape)
        else:
            std = (
                0.02 / math.sqrt(2 * len(s.kinds))
                if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight"))
                else 0.02
            )
            w = torch.empty(shape).normal_(
                0, std * (1.5 if std == 0.02 and "embed" not in name else 1.0), generator=gen
            )
        weights[name] = w.to(device).requires_grad_()
    return weights
