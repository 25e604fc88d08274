"""The bundled model for training: Qwen3.5 text equations over flat [tokens, width] tensors, plus the MTP layer.

Weights are a plain dict under the checkpoint's own names. Every stage works on a fixed number of tokens however they
are cut into rows, so compiled stages serve all sequence lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training import recurrence as R
from training.shape import Shape, Weights


# ---- stages: pure functions on flat tensors ------------------------------------------------------------
def norm_offset(x: Tensor, w: Tensor) -> Tensor:
    """RMS norm with an offset-from-one weight, in float32."""
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w)


def linear(x: Tensor, w: Tensor) -> Tensor:
    """Matrix product in the input's type."""
    return F.linear(x, w.to(x.dtype))


def gdn_front(
    x: Tensor,
    pos: Tensor,
    ln: Tensor,
    qkv: Tensor,
    z: Tensor,
    b: Tensor,
    a: Tensor,
    conv: Tensor,
    a_log: Tensor,
    dt: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, ...]:
    """Projections, causal convolution and gates.

    q, k, v [chunks * heads, 64, d], g and beta [chunks * heads, 64] in float32, and z.
    """
    h = norm_offset(x, ln).to(dtype)
    mixed = linear(h, qkv).float()
    taps = conv.shape[-1]
    kernel = conv[:, 0].float()
    out = mixed * kernel[:, taps - 1]
    for back in range(1, taps):
        moved = F.pad(mixed, (0, 0, back, 0))[: mixed.shape[0]]
        out = out + torch.where((pos >= back)[:, None], moved, 0.0) * kernel[:, taps - 1 - back]
    heads = a_log.shape[0]
    n = x.shape[0]
    q, k, v = (
        F.silu(out)
        .view(n // R.CHUNK, R.CHUNK, 3, heads, -1)
        .permute(2, 0, 3, 1, 4)
        .reshape(3, -1, R.CHUNK, out.shape[1] // 3 // heads)
        .unbind(0)
    )
    q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6) * q.shape[-1] ** -0.5
    k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
    beta = torch.sigmoid(linear(h, b).float())
    g = -a_log.float().exp() * F.softplus(linear(h, a).float() + dt)
    fold = lambda t: t.view(-1, R.CHUNK, heads).transpose(1, 2).reshape(-1, R.CHUNK)  # noqa: E731
    return q.contiguous(), k.contiguous(), v.contiguous(), fold(g), fold(beta), linear(h, z)


def gdn_back(x: Tensor, o: Tensor, z: Tensor, norm: Tensor, out: Tensor) -> Tensor:
    """Gated norm, output projection, residual."""
    n, heads = x.shape[0], z.shape[1] // o.shape[-1]
    o = o.view(n // R.CHUNK, heads, R.CHUNK, -1).transpose(1, 2).reshape(n, heads, -1)
    o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6) * norm * F.silu(z.float().view(n, heads, -1))
    return x + linear(o.reshape(n, -1).to(z.dtype), out).float()


def attention_front(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    ln: Tensor,
    qw: Tensor,
    kw: Tensor,
    vw: Tensor,
    qn: Tensor,
    kn: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, ...]:
    """q, gate [n, heads, d] and rotated k, raw v [n, kv heads, d]."""
    h = norm_offset(x, ln).to(dtype)
    n, d = x.shape[0], qn.shape[0]
    q, gate = linear(h, qw).view(n, -1, 2, d).unbind(2)
    k, v = linear(h, kw).view(n, -1, d), linear(h, vw).view(n, -1, d)
    return rotate(norm_offset(q, qn), cos, sin).to(dtype), gate, rotate(norm_offset(k, kn), cos, sin).to(dtype), v


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Partial rotary turn, split-half pairs; cos and sin [n, pairs]."""
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)


def attention_back(x: Tensor, o: Tensor, gate: Tensor, out: Tensor) -> Tensor:
    """Output gate, projection, residual."""
    mixed = o.float() * torch.sigmoid(gate.float())
    return x + linear(mixed.reshape(x.shape[0], -1).to(gate.dtype), out).float()


def mlp(x: Tensor, ln: Tensor, gate: Tensor, up: Tensor, down: Tensor, dtype: torch.dtype) -> Tensor:
    """Gated MLP with residual."""
    h = norm_offset(x, ln).to(dtype)
    return x + linear(F.silu(linear(h, gate)) * linear(h, up), down).float()


def mtp_front(e: Tensor, h: Tensor, we: Tensor, wh: Tensor, fc: Tensor, dtype: torch.dtype) -> Tensor:
    """The MTP entry: embedding half first."""
    return linear(torch.cat([norm_offset(e, we), norm_offset(h, wh)], dim=-1).to(dtype), fc).float()


_STAGES: tuple[Callable[..., Any], ...] = (
    gdn_front,
    gdn_back,
    attention_front,
    attention_back,
    mlp,
    mtp_front,
    norm_offset,
    R.chunk_products,
    R.chunk_updates,
    R.chunk_outputs,
)


_WORTHWHILE = frozenset(("gdn_front", "chunk_products"))


class Stages:
    """The stage functions, compiled or plain; `few` compiles only those that gain most, for short runs."""

    def __init__(self, heads: int, *, compiled: bool, few: bool = False) -> None:
        self.heads = heads
        for fn in _STAGES:
            use = compiled and (not few or fn.__name__ in _WORTHWHILE)
            setattr(self, fn.__name__, torch.compile(fn, dynamic=False) if use else fn)


class Model:
    """Weights and shape together; rows of equal length, positions from zero in every row."""

    def __init__(
        self, shape: Shape, weights: Weights, *, dtype: torch.dtype, compiled: bool = False, few: bool = False
    ) -> None:
        self.shape, self.w, self.dtype = shape, weights, dtype
        self.run = Stages(shape.gdn_heads, compiled=compiled, few=few)
        self.plain = Stages(shape.gdn_heads, compiled=False)
        width = shape.rotary
        self.frequency = (1.0 / shape.theta ** (torch.arange(0, width, 2).float() / width)).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.w["model.norm.weight"].device

    def turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin for flat positions."""
        angle = positions.float()[:, None] * self.frequency
        return angle.cos(), angle.sin()

    def _gdn(self, x: Tensor, pos: Tensor, p: str, rows: int) -> Tensor:
        w, run = self.w, self.run
        n = p + "linear_attn."
        q, k, v, g, beta, z = run.gdn_front(
            x,
            pos,
            w[p + "input_layernorm.weight"],
            w[n + "in_proj_qkv.weight"],
            w[n + "in_proj_z.weight"],
            w[n + "in_proj_b.weight"],
            w[n + "in_proj_a.weight"],
            w[n + "conv1d.weight"],
            w[n + "A_log"],
            w[n + "dt_bias"],
            self.dtype,
        )
        o = R.gated_delta(q, k, v, g, beta, rows, run)
        return run.gdn_back(x, o, z, w[n + "norm.weight"], w[n + "out_proj.weight"])

    def attend(self, x: Tensor, turns: tuple[Tensor, Tensor], p: str, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """A full-attention sublayer over whole rows; also its keys and values [rows, kv heads, t, d]."""
        w, run, s = self.w, self.run, self.shape
        n = p + "self_attn."
        q, gate, k, v = run.attention_front(
            x,
            *turns,
            w[p + "input_layernorm.weight"],
            w[n + "q_proj.weight"],
            w[n + "k_proj.weight"],
            w[n + "v_proj.weight"],
            w[n + "q_norm.weight"],
            w[n + "k_norm.weight"],
            self.dtype,
        )
        cut = lambda t: t.reshape(rows, -1, t.shape[1], s.head_dim).transpose(1, 2)  # noqa: E731
        kk, vv = cut(k), cut(v)
        o = F.scaled_dot_product_attention(cut(q), kk, vv, is_causal=True, enable_gqa=True)
        return (
            run.attention_back(
                x, o.transpose(1, 2).reshape(x.shape[0], s.heads, s.head_dim), gate, w[n + "o_proj.weight"]
            ),
            kk,
            vv,
        )

    def feed(self, x: Tensor, p: str, stages: Stages) -> Tensor:
        """The MLP sublayer of layer p."""
        w = self.w
        return stages.mlp(
            x,
            w[p + "post_attention_layernorm.weight"],
            w[p + "mlp.gate_proj.weight"],
            w[p + "mlp.up_proj.weight"],
            w[p + "mlp.down_proj.weight"],
            self.dtype,
        )

    def hidden(self, ids: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Final-normed hidden rows [rows * t, width] in float32, and the rotary tables."""
        rows, t = ids.shape
        pos = torch.arange(t, device=ids.device).repeat(rows)
        turns = self.turns(pos)
        x = F.embedding(ids.reshape(-1), self.w["model.embed_tokens.weight"])
        for i, kind in enumerate(self.shape.kinds):
            p = f"model.layers.{i}."
            x = self.attend(x, turns, p, rows)[0] if kind == "full_attention" else self._gdn(x, pos, p, rows)
            x = self.feed(x, p, self.run)
        return self.run.norm_offset(x, self.w["model.norm.weight"]), turns

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary in the compute type."""
        return linear(hidden.to(self.dtype), self.w["model.embed_tokens.weight"])

    # ---- MTP ------------------------------------------------------------------------------------------
    def mtp(self, next_ids: Tensor, hidden: Tensor, turns: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """First-depth rows for all positions and the keys and values they leave."""
        rows = next_ids.shape[0]
        w = self.w
        e = F.embedding(next_ids.reshape(-1), w["model.embed_tokens.weight"])
        x = self.run.mtp_front(
            e,
            hidden,
            w["mtp.pre_fc_norm_embedding.weight"],
            w["mtp.pre_fc_norm_hidden.weight"],
            w["mtp.fc.weight"],
            self.dtype,
        )
        x, k, v = self.attend(x, turns, "mtp.layers.0.", rows)
        x = self.feed(x, "mtp.layers.0.", self.run)
        return self.run.norm_offset(x, w["mtp.norm.weight"]), k, v

    def mtp_chain(self, at: Tensor, tokens: Tensor, first: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        """Rows of the deeper drafts.

        at [rows, p]: positions whose first draft is `first` [rows, p, width]; tokens [rows, p, depth].
        """
        w, s = self.w, self.shape
        rows, points = at.shape
        base_k, base_v = k.repeat_interleave(s.heads // s.kv_heads, 1), v.repeat_interleave(s.heads // s.kv_heads, 1)
        barred = torch.arange(k.shape[2], device=at.device)[None, None] > at[..., None]
        extra_k: list[Tensor] = []
        extra_v: list[Tensor] = []
        out: list[Tensor] = []
        h = first.reshape(rows * points, -1)
        n = "mtp.layers.0.self_attn."
        for depth in range(tokens.shape[2]):
            e = F.embedding(tokens[..., depth].reshape(-1), w["model.embed_tokens.weight"])
            x = mtp_front(
                e,
                h,
                w["mtp.pre_fc_norm_embedding.weight"],
                w["mtp.pre_fc_norm_hidden.weight"],
                w["mtp.fc.weight"],
                self.dtype,
            )
            q, gate, kk, vv = attention_front(
                x,
                *self.turns(at.reshape(-1) + 1 + depth),
                w["mtp.layers.0.input_layernorm.weight"],
                w[n + "q_proj.weight"],
                w[n + "k_proj.weight"],
                w[n + "v_proj.weight"],
                w[n + "q_norm.weight"],
                w[n + "k_norm.weight"],
                self.dtype,
            )
            extra_k.append(kk.view(rows, points, s.kv_heads, -1).repeat_interleave(s.heads // s.kv_heads, 2))
            extra_v.append(vv.view(rows, points, s.kv_heads, -1).repeat_interleave(s.heads // s.kv_heads, 2))
            q = q.view(rows, points, s.heads, -1)
            score = torch.einsum("rphd,rhtd->rhpt", q, base_k).float().masked_fill(barred[:, None], float("-inf"))
            own = torch.stack([(q * ek).float().sum(-1) for ek in extra_k], dim=-1).transpose(1, 2)
            weight = torch.cat([score, own], dim=-1).mul(s.head_dim**-0.5).softmax(-1)
            t = score.shape[-1]
            o = torch.einsum("rhpt,rhtd->rphd", weight[..., :t].to(self.dtype), base_v)
            for i, ev in enumerate(extra_v):
                o = o + weight[..., t + i].transpose(1, 2)[..., None].to(self.dtype) * ev
            x = attention_back(x, o.reshape(rows * points, s.heads, -1), gate, w[n + "o_proj.weight"])
            x = self.feed(x, "mtp.layers.0.", self.plain)
            h = norm_offset(x, w["mtp.norm.weight"])
            out.append(h)
        return out
