"""Operator `paged_attention`: causal grouped attention over keys and values kept in 64-token pages.

Formula: query n at history position p attends to positions 0 .. p: o = softmax(q K^T / sqrt(D)) V; query head j
reads KV head j // (Hq / Hk).
Shapes: q [N, Hq, D], k, v [N, Hk, D] (already normed and rotated), pool [pages, layers, 2, Hk, 64, D] (2: keys,
values), o [N, Hq, D]. N is T tokens of one sequence (prefill), one token of each of B
sequences (decode), or several of each (verify): rows of a decode with the same pages whose lengths differ by one.
Dtypes: q, k, v, o in the activations' format (FP32, FP64), pool in the model's format, to which q, k, v are rounded;
softmax and sums are FP32 or wider inside. A pool may also be a `ScaledPool`: one-byte keys and values with a scale for
each head of each token; every query, the newest included, then sees the rounded ones, and q is in the model's format.
State written: k and v of the N tokens into their pages, before attention reads them. Nothing else of the pool is
written, and no position at or past a row's end is read: unwritten memory may hold NaN.
Aliasing: rows of a decode write different places; full pages may be shared by rows, all pages by rows of one sequence.

A plan (`plan_prefill`, `plan_decode`) holds the index arithmetic of one unit and serves all layers of a pool.
"""

from __future__ import annotations

from .decode import DecodePages, attend_decode, plan_decode
from .pool import KvPool, ScaledPool, split_blocks
from .prefill import PrefillPages, attend_prefill, plan_prefill

__all__ = [
    "DecodePages",
    "KvPool",
    "PrefillPages",
    "ScaledPool",
    "attend_decode",
    "attend_prefill",
    "plan_decode",
    "plan_prefill",
    "split_blocks",
]
