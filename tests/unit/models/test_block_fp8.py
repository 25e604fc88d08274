"""FP8 checkpoints by blocks: the product against its definition, whole models, and every fault by its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_rig import FIXTURES
from safetensors.torch import load_file, save_file
from torch import Tensor

from ninfer.base.errors import ModelFileError
from ninfer.cli.main import run
from ninfer.config.geometry import BlockQuantization, read_geometry
from ninfer.models.block_fp8 import multiply_out, scale_shape
from ninfer.models.tensor_files import TensorFiles
from ninfer.models.weights import LoadedModel, load_weights

KEPT = ["lm_head", "model.embed_tokens", "mlp.gate", "shared_expert_gate", "in_proj_a", "in_proj_b", "mtp.fc"]
BLOCK = 32
"""Smaller than published ones, so that the fixtures' matrices have several blocks, the last ones cut."""


def round_blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[..., R, C] -> FP8 numbers and the scale of each block, one block after the other."""
    numbers = torch.empty(weight.shape, dtype=torch.float8_e4m3fn)
    scales = torch.empty(scale_shape(tuple(weight.shape), BlockQuantization(BLOCK, BLOCK, ())))
    for index in torch.cartesian_prod(*(torch.arange(size) for size in scales.shape)).tolist():
        *outer, row, column = index
        at = (*outer, slice(row * BLOCK, (row + 1) * BLOCK), slice(column * BLOCK, (column + 1) * BLOCK))
        scale = weight[at].float().abs().max() / 448
        numbers[at], scales[tuple(index)] = (weight[at].float() / scale).to(torch.float8_e4m3fn), scale
    return numbers, scales


def is_converted(name: str, tensor: Tensor) -> bool:
    module = name.removesuffix(".weight")
    matrix = tensor.dim() >= 2 and "conv1d" not in name
    return matrix and not any(module == kept or module.endswith("." + kept) for kept in KEPT)


def write_models(tmp_path: Path, name: str, scale_dtype: torch.dtype) -> tuple[Path, Path]:
    """The fixture in FP8 by blocks, and the same numbers multiplied out in FP32."""
    quantised, plain = tmp_path / "quantised", tmp_path / "plain"
    for folder in (quantised, plain):
        shutil.copytree(FIXTURES / name, folder)
        (folder / "config.json").chmod(0o644)
    stored: dict[str, Tensor] = {}
    multiplied: dict[str, Tensor] = {}
    for key, tensor in load_file(FIXTURES / name / "model.safetensors").items():
        stored[key] = multiplied[key] = tensor
        if is_converted(key, tensor):
            numbers, scales = round_blocks(tensor)
            scales = scales.to(scale_dtype)
            stored[key], stored[key + "_scale_inv"] = numbers, scales
            wide = scales.float().repeat_interleave(BLOCK, -1).repeat_interleave(BLOCK, -2)
            multiplied[key] = numbers.float() * wide[..., : tensor.shape[-2], : tensor.shape[-1]]
    save_file(stored, quantised / "model.safetensors")
    save_file(multiplied, plain / "model.safetensors")
    config = json.loads((quantised / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
        "modules_to_not_convert": KEPT,
    }
    (quantised / "config.json").write_text(json.dumps(config))
    return quantised, plain


def load(folder: Path, dtype: torch.dtype = torch.float32) -> LoadedModel:
    return load_weights(read_geometry(folder), TensorFiles(folder), folder, dtype)


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> Path:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def answer(folder: Path, capsys: pytest.CaptureFixture[str], dtype: str) -> list[int]:
    command = ["generate", str(folder), "--dtype", dtype, "--max-context", "256", "--max-tokens", "12", "--json"]
    assert run([*command, "--ids", "[1, 2, 3, 4, 5]", "--temperature", "0", "--ignore-eos"]) == 0
    ids: list[int] = json.loads(capsys.readouterr().out)["output_ids"]
    return ids


@settings(max_examples=40, deadline=None)
@given(
    outer=st.lists(st.integers(1, 3), max_size=1), rows=st.integers(1, 70), columns=st.integers(1, 70), data=st.data()
)
def test_the_product_is_number_times_scale_of_its_block(
    outer: list[int], rows: int, columns: int, data: st.DataObject
) -> None:
    block = BlockQuantization(data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40)), ())
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    weight = torch.randn(*outer, rows, columns, generator=generator).to(torch.float8_e4m3fn)
    scales = torch.rand(scale_shape(tuple(weight.shape), block), generator=generator)
    got = multiply_out(weight, scales, block, torch.float32)
    for index in torch.cartesian_prod(*(torch.arange(size) for size in weight.shape)).view(weight.numel(), -1).tolist():
        *first, row, column = index
        want = float(weight.float()[tuple(index)]) * float(scales[(*first, row // block.rows, column // block.columns)])
        assert abs(float(got[tuple(index)]) - want) <= 1e-6 * abs(want)


def test_long_matrices_are_multiplied_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """No FP32 copy of the whole."""
    weight, block = torch.randn(1000, 24).to(torch.float8_e4m3fn), BlockQuantization(16, 16, ())
    scales = torch.rand(63, 2)
    whole = multiply_out(weight, scales, block, torch.bfloat16)
    monkeypatch.setattr("ninfer.models.block_fp8._AT_ONCE", 1000)
    assert torch.equal(multiply_out(weight, scales, block, torch.bfloat16), whole)


@pytest.mark.parametrize("name", ["dense_text", "moe_text", "moe_vision"])
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.bfloat16])
def test_a_model_in_fp8_is_the_model_multiplied_out(
    tmp_path: Path, name: str, scale_dtype: torch.dtype, capsys: pytest.CaptureFixture[str]
) -> None:
    """[issue E 4] Every weight bit for bit, experts apart or stacked, MTP included; and the same answer. Against the
    unrounded model each converted weight is within an FP8 number's rounding."""
    quantised, plain = write_models(tmp_path, name, scale_dtype)
    ours, theirs, source = (load(folder) for folder in (quantised, plain, FIXTURES / name))
    assert (ours.mtp is None) == (theirs.mtp is None)
    for mine, other, unrounded in zip(ours.model.layers, theirs.model.layers, source.model.layers, strict=True):
        for part in ("in_proj", "out_proj"):
            rows = [getattr(layer.mixer, part) for layer in (mine, other, unrounded)]
            one, two, three = (weight.rows(0, weight.out_features) for weight in rows)
            assert torch.equal(one, two)
            assert not torch.equal(one, three)
            assert float((one - three).norm() / three.norm()) < 0.04
        if hasattr(mine.mlp, "down") and isinstance(mine.mlp.down, Tensor):
            assert torch.equal(mine.mlp.gate_up, other.mlp.gate_up)  # type: ignore[arg-type, union-attr]
            assert torch.equal(mine.mlp.down, other.mlp.down)  # type: ignore[arg-type, union-attr]
    if name.endswith("_text"):
        assert answer(quantised, capsys, "float32") == answer(plain, capsys, "float32")
        assert len(answer(quantised, capsys, "bfloat16")) == 12


def test_a_missing_or_misshaped_scale_is_named(tmp_path: Path) -> None:
    quantised, _ = write_models(tmp_path, "dense_text", torch.float32)
    scale = "model.layers.0.mlp.up_proj.weight_scale_inv"
    rewrite(quantised, lambda tensors: tensors.update({scale: torch.ones(1, 1)}))
    with pytest.raises(ModelFileError, match=rf"{scale} is F32 \[1, 1\], must be numbers \[3, 2\]"):
        load(quantised)
    rewrite(quantised, lambda tensors: tensors.pop(scale))
    with pytest.raises(ModelFileError, match=f"{scale} is missing"):
        load(quantised)


def test_a_scale_without_its_weight_is_extra(tmp_path: Path) -> None:
    quantised, _ = write_models(tmp_path, "dense_text", torch.float32)
    rewrite(quantised, lambda tensors: tensors.update({"model.norm.weight_scale_inv": torch.ones(1, 1)}))
    with pytest.raises(ModelFileError, match=r"1 extra: model\.norm\.weight_scale_inv"):
        load(quantised)


def test_a_module_that_is_not_to_be_converted_is_not(tmp_path: Path) -> None:
    """[issue E 4] modules_to_not_convert: an FP8 weight of such a module contradicts the config."""
    quantised, _ = write_models(tmp_path, "moe_text", torch.float32)
    name = "model.layers.0.mlp.gate.weight"

    def convert(tensors: dict[str, Tensor]) -> None:
        tensors[name], tensors[name + "_scale_inv"] = round_blocks(tensors[name])

    rewrite(quantised, convert)
    with pytest.raises(ModelFileError, match=rf"{name} is F8_E4M3, but quantization_config\.modules_to_not_convert"):
        load(quantised)


def test_fp8_without_a_config_is_one_line(tmp_path: Path) -> None:
    """[issue E bad input]"""
    quantised, plain = write_models(tmp_path, "dense_text", torch.float32)
    shutil.copy(plain / "config.json", quantised / "config.json")
    with pytest.raises(ModelFileError, match=r"is F8_E4M3, but config\.json has no quantization_config") as caught:
        load(quantised)
    assert "\n" not in str(caught.value)


def test_another_method_is_refused_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quantised, _ = write_models(tmp_path, "dense_text", torch.float32)
    config = json.loads((quantised / "config.json").read_text())
    config["quantization_config"]["quant_method"] = "awq"
    (quantised / "config.json").write_text(json.dumps(config))
    assert run(["inspect", str(quantised)]) == 1
    assert "quantization_config.quant_method must be 'fp8', not 'awq'" in capsys.readouterr().err
