"""Operator `sampling`: draw one token per row; a pure function of logits, parameters, output so far and a uniform.

Order, per row: ids at or past `vocab_tokens` are forbidden; bias; penalties over output tokens only (repetition:
positive logits divided, others multiplied; then presence once, frequency per occurrence); mask (packed bits,
little-endian, 1 = allowed, ids past its end are forbidden); log-probabilities are taken here. Greedy (temperature
below GREEDY_BELOW): the largest logit, the lowest id among equals. Else logits / temperature, then filters that keep
a head of the order (larger first, lower id first among equals): top-k; top-p over what top-k left, the shortest head
whose mass reaches top_p; min-p, at least min_p times the best probability. Inverse CDF in the order of ids: the first
id whose summed probability exceeds uniform * total.
Shapes: logits [B, V]. Dtypes: arithmetic in FP32 (FP64 for FP64), sums of probabilities in FP64.
State written: none. Aliasing: logits are consumed.
"""

from __future__ import annotations

from .cpu import DrawInput, Drawn, draw

__all__ = ["DrawInput", "Drawn", "draw"]
