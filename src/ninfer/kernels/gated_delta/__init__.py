"""Operator `gated_delta`: the gated delta rule over recurrent states kept in slots.

Formula, per value head, S [Dk, Dv]:  S = a S;  u = beta (v - S^T k);  S = S + k u^T;  o = S^T q / sqrt(Dk)
with a = exp(log_decay); the error uses the already decayed S. Value head j uses q, k of head j // (Hv / Hk).
Shapes: q, k [N, Hk, Dk], v [N, Hv, Dv], log_decay, beta [N, Hv], states [slots, Hv, Dk, Dv] (a view of the
StateImages of one layer), o [N, Hv, Dv]. N is T tokens of one sequence (scan) or one token of B sequences (step).
Dtypes: everything in the activations' format (FP32, FP64), the states included.
State written: the write slot gets S after the last token. A scan is cut after each offset of `cuts`, and a cut with a
slot leaves S there, in full precision; where it is cut changes rounding, whether a slot is given does not. A verify
(several tokens of each of B sequences, S kept after each) is a scan with a cut after every token, or `mix_step` with
more rows than read slots: whichever columns are accepted, their slot goes on.
Aliasing: read and write slot may be equal; else the read slot is left as it is. Slots of different rows of a step
are different. A read slot of None is the empty state.

`delta_inputs` makes q, k, v, log_decay, beta of the raw projections: q = unit(q), k = unit(k) with
unit(x) = x / sqrt(sum(x^2) + 1e-6), beta = sigmoid(b), log_decay = -exp(A_log) softplus(a + dt_bias).
"""

from __future__ import annotations

from .chunked import delta_scan
from .inputs import DeltaInputs, delta_inputs
from .recurrent import delta_step

__all__ = ["DeltaInputs", "delta_inputs", "delta_scan", "delta_step"]
