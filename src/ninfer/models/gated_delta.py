"""The Gated DeltaNet mixer: projections, causal convolution, delta rule, gated norm."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ninfer.config.geometry import GdnGeometry
from ninfer.kernels.conv1d import conv_scan, conv_step
from ninfer.kernels.gated_delta import delta_inputs, delta_scan, delta_step
from ninfer.kernels.linear import DenseWeight, add_linear_, linear
from ninfer.kernels.rmsnorm import RmsNorm, rmsnorm_gated

from .passes import Memory, Pass, PrefillPass


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """Weights of one layer; `layer` is its index among the layers that keep recurrent state.

    `in_proj` rows: q | k | v channels, z (output gate), b (update strength), a (decay). Small weights are in
    the activations' format: `conv` [taps, channels], `decay_rate` = -exp(A_log) and `dt_bias` [Hv].
    """

    geometry: GdnGeometry
    layer: int
    in_proj: DenseWeight
    out_proj: DenseWeight
    conv: Tensor
    decay_rate: Tensor
    dt_bias: Tensor
    norm: RmsNorm

    def add_to_(self, x: Tensor, h: Tensor, run: Pass, memory: Memory) -> None:
        """x [N, H] += mixer(h [N, H]); state and convolution columns go from read slot to write slot."""
        shape, rows = self.geometry, h.shape[0]
        states, columns = memory.states.layer_recurrent[self.layer], memory.states.layer_conv[self.layer]
        sizes = [shape.conv_channels, shape.value_width, shape.value_heads, shape.value_heads]
        m, z, b, a = linear(h, self.in_proj).split_with_sizes(sizes, -1)
        if isinstance(run, PrefillPass):
            mixed = conv_scan(m, self.conv, columns, run.read_slot, run.write_slot, run.cuts)
        else:
            mixed = conv_step(m, self.conv, columns, run.slots)
        inputs = delta_inputs(mixed, b, a, self.decay_rate, self.dt_bias, shape.key_heads, shape.key_dim)
        if isinstance(run, PrefillPass):
            out = delta_scan(inputs, states, run.read_slot, run.write_slot, run.cuts)
        else:
            out = delta_step(inputs, states, run.slots)
        gated = rmsnorm_gated(out, z.view(out.shape), self.norm)
        add_linear_(x, gated.reshape(rows, -1), self.out_proj)
