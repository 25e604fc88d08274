"""From checkpoint tensors to parameters: which names a geometry needs, their shapes, and where each one goes.

The parameters are laid out first (unwritten memory costs nothing), every name is checked against the files, and only
then one tensor after the other is copied into place, converted on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ninfer.base.errors import ModelFileError
from ninfer.config.geometry import LayerKind, ModelGeometry
from ninfer.kernels.linear import DenseWeight
from ninfer.kernels.rmsnorm import RmsNorm
from ninfer.kernels.rope import build_rotary

from . import block_fp8
from .attention import Attention
from .gated_delta import GatedDelta
from .hybrid import HybridModel, Layer
from .mlp import DenseMlp
from .moe import SparseMlp
from .mtp import MtpModel
from .tensor_files import TensorEntry, TensorFiles

Progress = Callable[[int, int], None]
"""Called with (bytes copied so far, bytes in all) after each tensor."""

_NAMED_AT_MOST = 8
_KNOWN_POSITIONS = 32 * 1024
"""Rotary tables are kept for so many positions."""
_SMALL_HEAD_BYTES = 64 * 1024 * 1024
"""A tied head up to here may exist twice: rows for the embedding, packed for products."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`mtp` is None when the directory has no `mtp.` tensors: re-saved checkpoints lose them."""

    model: HybridModel
    mtp: MtpModel | None


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor that must exist: its shape in the file, what puts it in place, the weight it is a part of."""

    shape: tuple[int, ...]
    write: Callable[[Tensor], object]
    weight: DenseWeight | None = None


def load_weights(
    geometry: ModelGeometry, files: TensorFiles, model_dir: Path, dtype: torch.dtype, progress: Progress | None = None
) -> LoadedModel:
    """Raises ModelFileError that names every missing, extra and misshaped tensor (the first few of each kind)."""
    layout = _Layout(geometry, files.entries, dtype)
    loaded = LoadedModel(layout.lay_model(), layout.lay_mtp())
    _check_names(layout, files.entries, model_dir)
    total = sum(entry.stop - entry.start for name, entry in files.entries.items() if name in layout.places)
    done = 0
    for name, entry in files.entries.items():
        place = layout.places.get(name)
        if place is None:
            continue
        _write(place, name, files, geometry, dtype)
        layout.finish(place)
        done += entry.stop - entry.start
        if progress is not None:
            progress(done, total)
    return loaded


def _write(place: _Place, name: str, files: TensorFiles, geometry: ModelGeometry, dtype: torch.dtype) -> None:
    """Into place; an FP8 weight is multiplied out on the way, one tensor at a time."""
    with files.borrow(name) as tensor:
        if files.entries[name].dtype != block_fp8.FP8:
            place.write(tensor)
            return
        assert geometry.quantization is not None
        with files.borrow(block_fp8.scale_name(name)) as scales:
            place.write(block_fp8.multiply_out(tensor, scales, geometry.quantization, dtype))


def fill_weights(
    geometry: ModelGeometry, dtype: torch.dtype, make: Callable[[str, tuple[int, ...]], Tensor]
) -> LoadedModel:
    """A model without files and without MTP: each checkpoint tensor, experts stacked, is made by name and shape."""
    stacked = [f"{geometry.tensor_root}layers.{i}.mlp.experts.gate_up_proj" for i in range(len(geometry.layers))]
    layout = _Layout(geometry, stacked, dtype)
    loaded = LoadedModel(layout.lay_model(), None)
    for name, place in layout.places.items():
        place.write(make(name, place.shape))
        layout.finish(place)
    return loaded


def list_tensor_shapes(geometry: ModelGeometry) -> dict[str, tuple[int, ...]]:
    """Every tensor of a complete checkpoint of the text model and its MTP layer, experts one by one."""
    layout = _Layout(geometry, {}, torch.bfloat16)
    layout.lay_model()
    layout.lay_mtp(missing_allowed=False)
    return {name: place.shape for name, place in layout.places.items()}


def _empty_experts(experts: int, inputs: int, outputs: int, dtype: torch.dtype) -> Tensor:
    """[E, inputs, outputs]; on a GPU the inputs of one output lie together, on a CPU the outputs of one input."""
    if torch.get_default_device().type == "cuda":
        return torch.empty(experts, outputs, inputs, dtype=dtype).transpose(1, 2)
    return torch.empty(experts, inputs, outputs, dtype=dtype)


def _check_names(layout: _Layout, entries: dict[str, TensorEntry], model_dir: Path) -> None:
    missing = [name for name in layout.places if name not in entries]
    extra = [
        name
        for name in entries
        if name not in layout.places and not layout.is_skipped(name) and not block_fp8.is_scale(name, entries)
    ]
    misshaped = [
        f"{name} is {list(entries[name].shape)}, must be {list(place.shape)}"
        for name, place in layout.places.items()
        if name in entries and entries[name].shape != place.shape
    ]
    parts = [
        f"{len(names)} {word}: {', '.join(names[:_NAMED_AT_MOST])}{', ...' if len(names) > _NAMED_AT_MOST else ''}"
        for word, names in (("missing", missing), ("extra", extra), ("misshaped", misshaped))
        if names
    ]
    faults = list(block_fp8.list_faults(entries, layout.geometry.quantization, layout.places))
    if faults:
        parts.append("; ".join(faults[:_NAMED_AT_MOST]) + ("; ..." if len(faults) > _NAMED_AT_MOST else ""))
    if parts:
        raise ModelFileError(f"{model_dir}: tensors do not fit {layout.geometry.architecture}: {'; '.join(parts)}")


class _Layout:
    """Lays out all parameters of one geometry and remembers where each checkpoint tensor goes."""

    def __init__(self, geometry: ModelGeometry, entries: Collection[str], dtype: torch.dtype) -> None:
        self.geometry = geometry
        self.places: dict[str, _Place] = {}
        self._entries = entries
        self._parts_missing: dict[int, int] = {}
        self._tied_head: DenseWeight | None = None
        self._dtype = dtype
        self._fine = torch.float64 if dtype == torch.float64 else torch.float32

    def is_skipped(self, name: str) -> bool:
        """The vision tower is known and not built yet."""
        return self.geometry.vision is not None and name.startswith("model.visual.")

    def finish(self, place: _Place) -> None:
        """After a place was written: a weight whose parts are all there is packed at once, its source given up."""
        weight = place.weight
        if weight is None:
            return
        self._parts_missing[id(weight)] -= 1
        if self._parts_missing[id(weight)]:
            return
        if weight is not self._tied_head:
            weight.pack()
        elif weight.out_features * weight.in_features * self._dtype.itemsize <= _SMALL_HEAD_BYTES:
            weight.pack(keep_rows=True)

    def lay_model(self) -> HybridModel:
        shape, root = self.geometry, self.geometry.tensor_root
        head = DenseWeight(shape.vocab_rows, shape.hidden, self._dtype)
        head_rows = head.rows(0, shape.vocab_rows)
        if shape.tied_head:
            embedding, self._tied_head = head_rows, head
            self._copy(root + "embed_tokens.weight", embedding, head)
        else:
            embedding = torch.empty(shape.vocab_rows, shape.hidden, dtype=self._dtype)
            self._copy(root + "embed_tokens.weight", embedding)
            self._copy("lm_head.weight", head_rows, head)
        layers = []
        seen = dict.fromkeys(LayerKind, 0)
        for index, kind in enumerate(shape.layers):
            layers.append(self._lay_layer(f"{root}layers.{index}.", kind, seen[kind]))
            seen[kind] += 1
        rope, known = shape.rope, min(shape.max_positions, _KNOWN_POSITIONS)
        return HybridModel(
            geometry=shape,
            activations=self._fine,
            embedding=embedding,
            layers=layers,
            final_norm=self._offset_norm(root + "norm.weight"),
            head=head,
            rotary=build_rotary(rope.theta, rope.width, rope.sections, self._fine, known),
        )

    def lay_mtp(self, *, missing_allowed: bool = True) -> MtpModel | None:
        shape = self.geometry
        missing = not any(name.startswith("mtp.") for name in self._entries)
        if not shape.mtp_layers or (missing and missing_allowed):
            return None
        return MtpModel(
            fuse=self._linear({"mtp.fc.weight": shape.hidden}, 2 * shape.hidden),
            embedding_norm=self._offset_norm("mtp.pre_fc_norm_embedding.weight"),
            hidden_norm=self._offset_norm("mtp.pre_fc_norm_hidden.weight"),
            layer=self._lay_layer("mtp.layers.0.", LayerKind.FULL, 0),
            final_norm=self._offset_norm("mtp.norm.weight"),
        )

    # ---- one layer ------------------------------------------------------------------------------------------------

    def _lay_layer(self, prefix: str, kind: LayerKind, index: int) -> Layer:
        match kind:
            case LayerKind.FULL:
                mixer: Attention | GatedDelta = self._lay_attention(prefix + "self_attn.", index)
            case LayerKind.LINEAR:
                mixer = self._lay_gated_delta(prefix + "linear_attn.", index)
        return Layer(
            mixer=mixer,
            mlp=self._lay_dense_mlp(prefix + "mlp.") if self.geometry.moe is None else self._lay_moe(prefix + "mlp."),
            mixer_norm=self._offset_norm(prefix + "input_layernorm.weight"),
            mlp_norm=self._offset_norm(prefix + "post_attention_layernorm.weight"),
        )

    def _lay_attention(self, prefix: str, index: int) -> Attention:
        shape, hidden = self.geometry.attention, self.geometry.hidden
        heads, kv_heads, width = shape.heads, shape.kv_heads, shape.head_dim
        ends = [heads * width, (heads + kv_heads) * width, (heads + 2 * kv_heads) * width]
        in_proj = DenseWeight(2 * (heads + kv_heads) * width, hidden, self._dtype)
        queries = in_proj.rows(0, ends[0]).unflatten(0, (heads, width))
        gates = in_proj.rows(ends[2], in_proj.out_features).unflatten(0, (heads, width))

        def write_queries(tensor: Tensor) -> None:
            per_head = tensor.unflatten(0, (heads, 2, width))
            queries.copy_(per_head[:, 0])
            gates.copy_(per_head[:, 1])

        self._place(prefix + "q_proj.weight", (heads * 2 * width, hidden), write_queries, in_proj)
        self._copy(prefix + "k_proj.weight", in_proj.rows(ends[0], ends[1]), in_proj)
        self._copy(prefix + "v_proj.weight", in_proj.rows(ends[1], ends[2]), in_proj)
        norm = RmsNorm.empty((heads + kv_heads, width), self.geometry.norm_eps, self._fine)
        queries_at, keys_at = slice(0, heads), slice(heads, None)
        self._place(prefix + "q_norm.weight", (width,), lambda t: norm.fill(t, offset=1, heads=queries_at))
        self._place(prefix + "k_norm.weight", (width,), lambda t: norm.fill(t, offset=1, heads=keys_at))
        out_proj = self._linear({prefix + "o_proj.weight": hidden}, heads * width)
        return Attention(shape, index, in_proj, out_proj, norm)

    def _lay_gated_delta(self, prefix: str, index: int) -> GatedDelta:
        shape, hidden = self.geometry.gdn, self.geometry.hidden
        conv = torch.empty(shape.conv_taps, shape.conv_channels, dtype=self._fine)
        conv_shape = (shape.conv_channels, 1, shape.conv_taps)
        self._place(prefix + "conv1d.weight", conv_shape, lambda t: conv.copy_(t[:, 0].t()))
        rate = torch.empty(shape.value_heads, dtype=self._fine)
        self._place(prefix + "A_log", (shape.value_heads,), lambda t: rate.copy_(t).exp_().neg_())
        norm = RmsNorm.empty((shape.value_dim,), self.geometry.norm_eps, self._fine)
        self._place(prefix + "norm.weight", (shape.value_dim,), lambda t: norm.fill(t, offset=0))
        in_proj = {
            prefix + "in_proj_qkv.weight": shape.conv_channels,
            prefix + "in_proj_z.weight": shape.value_width,
            prefix + "in_proj_b.weight": shape.value_heads,
            prefix + "in_proj_a.weight": shape.value_heads,
        }
        return GatedDelta(
            geometry=shape,
            layer=index,
            in_proj=self._linear(in_proj, hidden),
            out_proj=self._linear({prefix + "out_proj.weight": hidden}, shape.value_width),
            conv=conv,
            decay_rate=rate,
            dt_bias=self._vector(prefix + "dt_bias", shape.value_heads),
            norm=norm,
        )

    def _lay_dense_mlp(self, prefix: str) -> DenseMlp:
        return self._gated_mlp(prefix, self.geometry.mlp_inner)

    def _lay_moe(self, prefix: str) -> SparseMlp:
        moe, hidden = self.geometry.moe, self.geometry.hidden
        assert moe is not None
        router = self._linear({prefix + "gate.weight": moe.experts, prefix + "shared_expert_gate.weight": 1}, hidden)
        gate_up = _empty_experts(moe.experts, hidden, 2 * moe.inner, self._dtype)
        down = _empty_experts(moe.experts, moe.inner, hidden, self._dtype)
        stacked = prefix + "experts.gate_up_proj"
        if stacked in self._entries or prefix + "experts.down_proj" in self._entries:
            self._copy(stacked, gate_up.transpose(1, 2))
            self._copy(prefix + "experts.down_proj", down.transpose(1, 2))
        else:
            for expert in range(moe.experts):
                one = f"{prefix}experts.{expert}."
                self._copy(one + "gate_proj.weight", gate_up[expert, :, : moe.inner].t())
                self._copy(one + "up_proj.weight", gate_up[expert, :, moe.inner :].t())
                self._copy(one + "down_proj.weight", down[expert].t())
        shared = self._gated_mlp(prefix + "shared_expert.", moe.shared_inner)
        return SparseMlp(moe.top_k, router, gate_up, down, shared.gate_up, shared.down)

    def _gated_mlp(self, prefix: str, inner: int) -> DenseMlp:
        hidden = self.geometry.hidden
        gate_up = {prefix + "gate_proj.weight": inner, prefix + "up_proj.weight": inner}
        return DenseMlp(self._linear(gate_up, hidden), self._linear({prefix + "down_proj.weight": hidden}, inner))

    # ---- places ---------------------------------------------------------------------------------------------------

    def _place(
        self, name: str, shape: tuple[int, ...], write: Callable[[Tensor], object], weight: DenseWeight | None = None
    ) -> None:
        self.places[name] = _Place(shape, write, weight)
        if weight is not None:
            self._parts_missing[id(weight)] = self._parts_missing.get(id(weight), 0) + 1

    def _copy(self, name: str, target: Tensor, weight: DenseWeight | None = None) -> None:
        self._place(name, tuple(target.shape), target.copy_, weight)

    def _linear(self, parts: dict[str, int], in_features: int) -> DenseWeight:
        """One fused weight of named parts, each with its count of output rows."""
        weight = DenseWeight(sum(parts.values()), in_features, self._dtype)
        start = 0
        for name, out_features in parts.items():
            self._copy(name, weight.rows(start, start + out_features), weight)
            start += out_features
        return weight

    def _vector(self, name: str, count: int) -> Tensor:
        target = torch.empty(count, dtype=self._fine)
        self._copy(name, target)
        return target

    def _offset_norm(self, name: str) -> RmsNorm:
        """A norm over the hidden width whose weight is an offset from one."""
        norm = RmsNorm.empty((self.geometry.hidden,), self.geometry.norm_eps, self._fine)
        self._place(name, (self.geometry.hidden,), lambda tensor: norm.fill(tensor, offset=1))
        return norm
