"""Loading: both expert layouts, shards, memory, and every fault named in one error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from model_rig import FIXTURES, Rig
from safetensors.torch import load_file, save_file
from torch import Tensor

from ninfer.base.errors import ModelFileError
from ninfer.config.geometry import read_geometry
from ninfer.models.digest import digest_weights
from ninfer.models.tensor_files import INDEX_FILE, TensorFiles
from ninfer.models.weights import LoadedModel, load_weights


def load(folder: Path, dtype: torch.dtype = torch.float32) -> LoadedModel:
    return load_weights(read_geometry(folder), TensorFiles(folder), folder, dtype)


def model_dir(tmp_path: Path, name: str, tensors: dict[str, Tensor]) -> Path:
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    shutil.copy(FIXTURES / name / "config.json", folder)
    save_file(tensors, folder / "model.safetensors")
    return folder


def tensors_of(name: str) -> dict[str, Tensor]:
    return load_file(FIXTURES / name / "model.safetensors")


def write_shards(folder: Path, name: str, count: int) -> None:
    shutil.copy(FIXTURES / name / "config.json", folder)
    tensors = tensors_of(name)
    weight_map = {}
    for shard in range(count):
        names = sorted(tensors)[shard::count]
        file = f"model-{shard + 1:05d}-of-{count:05d}.safetensors"
        save_file({key: tensors[key] for key in names}, folder / file)
        weight_map |= dict.fromkeys(names, file)
    (folder / INDEX_FILE).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_missing_extra_and_misshaped_tensors_are_named_in_one_error(tmp_path: Path) -> None:
    """[issue A 2]"""
    tensors = tensors_of("dense_text")
    del tensors["model.layers.3.self_attn.k_norm.weight"]
    tensors["model.layers.3.self_attn.k_proj.bias"] = torch.zeros(128)
    tensors["model.norm.weight"] = torch.zeros(63, dtype=torch.bfloat16)
    with pytest.raises(ModelFileError) as caught:
        load(model_dir(tmp_path, "dense_text", tensors))
    message = str(caught.value)
    assert "1 missing: model.layers.3.self_attn.k_norm.weight" in message
    assert "1 extra: model.layers.3.self_attn.k_proj.bias" in message
    assert "1 misshaped: model.norm.weight is [63], must be [64]" in message
    assert "\n" not in message


def test_many_faults_stay_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"122 missing: .*, \.\.\.") as caught:
        load(model_dir(tmp_path, "dense_text", {"mtp.norm.weight": torch.zeros(64), "lm_head.weight": torch.zeros(2)}))
    assert len(str(caught.value)) < 1500


def test_half_an_mtp_layer_is_an_error_and_none_is_not(tmp_path: Path) -> None:
    tensors = {name: tensor for name, tensor in tensors_of("moe_text").items() if not name.startswith("mtp.")}
    assert load(model_dir(tmp_path, "moe_text", tensors)).mtp is None
    tensors["mtp.norm.weight"] = torch.zeros(64)
    with pytest.raises(ModelFileError, match=r"missing: mtp\."):
        load(model_dir(tmp_path, "moe_text", tensors))


def test_vision_tensors_are_skipped_only_where_a_tower_is_configured(tmp_path: Path) -> None:
    load(FIXTURES / "dense_vision")
    tensors = tensors_of("dense_text") | {"model.visual.patch_embed.proj.bias": torch.zeros(32)}
    with pytest.raises(ModelFileError, match=r"1 extra: model\.visual\.patch_embed\.proj\.bias"):
        load(model_dir(tmp_path, "dense_text", tensors))


@pytest.mark.parametrize("name", ["moe_text", "moe_vision"])
def test_both_expert_layouts_give_the_same_weights(tmp_path: Path, name: str) -> None:
    """[issue A 2] one tensor per expert, or all experts stacked."""
    tensors = tensors_of(name)
    stacked = any(key.endswith("experts.gate_up_proj") for key in tensors)
    assert stacked == (name == "moe_vision")
    converted = dict(tensors)
    for prefix in {key.split("experts.")[0] + "experts." for key in tensors if "mlp.experts." in key}:
        if stacked:
            gate_up, down = converted.pop(prefix + "gate_up_proj"), converted.pop(prefix + "down_proj")
            for expert in range(len(down)):
                gate, up = gate_up[expert].chunk(2)
                converted[f"{prefix}{expert}.gate_proj.weight"] = gate.clone()
                converted[f"{prefix}{expert}.up_proj.weight"] = up.clone()
                converted[f"{prefix}{expert}.down_proj.weight"] = down[expert].clone()
        else:
            experts = range(sum(key.startswith(prefix) for key in tensors) // 3)
            parts = [
                [converted.pop(f"{prefix}{e}.{kind}_proj.weight") for e in experts] for kind in ("gate", "up", "down")
            ]
            gates, ups, downs = (torch.stack(part) for part in parts)
            converted[prefix + "gate_up_proj"] = torch.cat([gates, ups], 1)
            converted[prefix + "down_proj"] = downs
    one, other = load(FIXTURES / name), load(model_dir(tmp_path, name, converted))
    for mine, theirs in zip(one.model.layers, other.model.layers, strict=True):
        assert torch.equal(mine.mlp.gate_up, theirs.mlp.gate_up)  # type: ignore[arg-type, union-attr]
        assert torch.equal(mine.mlp.down, theirs.mlp.down)  # type: ignore[arg-type, union-attr]


def test_shards_with_an_index_equal_one_file(tmp_path: Path) -> None:
    write_shards(tmp_path, "dense_text", 3)
    one, other = load(FIXTURES / "dense_text"), load(tmp_path)
    assert torch.equal(one.model.head.rows(0, 320), other.model.head.rows(0, 320))
    mine, theirs = one.model.layers[5].mixer.in_proj, other.model.layers[5].mixer.in_proj
    assert torch.equal(mine.rows(0, 260), theirs.rows(0, 260))


def test_a_missing_shard_and_a_wrong_index_are_named(tmp_path: Path) -> None:
    """[issue A bad input] an incomplete directory."""
    write_shards(tmp_path, "dense_text", 2)
    index = json.loads((tmp_path / INDEX_FILE).read_text())
    index["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors"
    index["weight_map"]["model.embed_tokens.weight"] = "model-00002-of-00002.safetensors"
    (tmp_path / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(ModelFileError, match="weight_map: model"):
        load(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model-00002-of-00002\.safetensors: file not found"):
        load(tmp_path)
    (tmp_path / INDEX_FILE).write_text(json.dumps({"weight_map": {"a": "../evil.safetensors"}}))
    with pytest.raises(ModelFileError, match="is not a file of this directory"):
        load(tmp_path)
    (tmp_path / INDEX_FILE).unlink()
    with pytest.raises(ModelFileError, match=r"neither model\.safetensors nor"):
        load(tmp_path)


@pytest.mark.parametrize("kept_bytes", [0, 4, 100, 5000, 100_000])
def test_a_file_cut_short_is_one_error(tmp_path: Path, kept_bytes: int) -> None:
    folder = model_dir(tmp_path, "dense_text", tensors_of("dense_text"))
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept_bytes])
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        load(folder)


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    folder, calls = FIXTURES / "moe_vision", []
    load_weights(
        read_geometry(folder),
        TensorFiles(folder),
        folder,
        torch.bfloat16,
        lambda done, total: calls.append((done, total)),
    )
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1]
    assert len({total for _, total in calls}) == 1


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads the kernel's account of mapped pages")
def test_loading_never_holds_two_copies(tmp_path: Path) -> None:
    """[issue A speed and memory] what has been copied is given back: at any time less of the file than one tensor."""
    tensors = tensors_of("dense_text")
    tensors["model.embed_tokens.weight"] = torch.zeros(40_000, 64, dtype=torch.bfloat16)
    tensors["mtp.fc.weight"] = torch.zeros(64, 128, dtype=torch.bfloat16)
    folder = model_dir(tmp_path, "dense_text", tensors)
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": 40_000}
    (folder / "config.json").write_text(json.dumps(config))
    resident = []
    load_weights(
        read_geometry(folder),
        TensorFiles(folder),
        folder,
        torch.float32,
        lambda _done, _total: resident.append(resident_bytes(folder / "model.safetensors")),
    )
    assert (folder / "model.safetensors").stat().st_size > 5_000_000
    assert max(resident) < 1_000_000


def resident_bytes(file: Path) -> int:
    """Bytes of mappings of `file` that are in memory."""
    inside, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = line.endswith(str(file))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_a_tied_head_is_one_memory() -> None:
    rig = Rig("dense_text")
    rows = rig.model.head.rows(0, 320)
    assert rig.model.embedding.untyped_storage().data_ptr() == rows.untyped_storage().data_ptr()
    assert torch.equal(rig.model.embed(torch.tensor([5]))[0], rows[5])


def test_the_digest_follows_content_and_config_only(tmp_path: Path) -> None:
    """[decision 19] the same in every process, in any sharding; another weight or config is another identity."""
    folder = FIXTURES / "dense_text"
    whole = digest_weights(folder, TensorFiles(folder))
    write_shards(tmp_path, "dense_text", 3)
    assert digest_weights(tmp_path, TensorFiles(tmp_path)) == whole
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(dict(reversed(config.items())), indent=7))
    assert digest_weights(tmp_path, TensorFiles(tmp_path)) == whole
    config["rope_parameters"]["rope_theta"] = 1000
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert digest_weights(tmp_path, TensorFiles(tmp_path)) != whole
    tensors = tensors_of("dense_text")
    tensors["model.norm.weight"][7] += 1
    changed = model_dir(tmp_path, "dense_text", tensors)
    assert digest_weights(changed, TensorFiles(changed)) != whole
