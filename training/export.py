"""Weights in and out: bf16 shards in the Hugging Face layout, and back into float32 for training or checks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from training.shape import Shape, Weights, fresh_weights, tensor_shapes

SHARD_BYTES = 12_000_000
INDEX = "model.safetensors.index.json"


def save(weights: Weights, shape: Shape, folder: Path) -> list[str]:
    """Write bf16 shards and the index; returns the shard names."""
    parts: list[dict[str, torch.Tensor]] = [{}]
    room, total = SHARD_BYTES, 0
    for name in tensor_shapes(shape):
        tensor = weights[name].detach().to("cpu", torch.bfloat16).contiguous()
        size = tensor.numel() * 2
        total += size
        if size > room and parts[-1]:
            parts.append({})
            room = SHARD_BYTES
        parts[-1][name] = tensor
        room -= size
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model-*.safetensors"):
        old.unlink()
    names = [f"model-{i + 1:05d}-of-{len(parts):05d}.safetensors" for i in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        save_file(part, folder / name, metadata={"format": "pt"})
        (folder / name).chmod(0o644)
    where = {key: name for name, part in zip(names, parts, strict=True) for key in part}
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=1, sort_keys=True)
    (folder / INDEX).write_text(text + "\n")
    return names


def load(shape: Shape, folder: Path, device: torch.device | str = "cpu") -> Weights:
    """Read shards back as float32 parameters; every tensor must be there with its shape."""
    found: Weights = {}
    for name in sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values())):
        found |= load_file(folder / name)
    wanted = tensor_shapes(shape)
    assert set(found) == set(wanted), set(found) ^ set(wanted)
    assert all(tuple(found[n].shape) == wanted[n] for n in wanted)
    return {n: found[n].float().to(device).requires_grad_() for n in wanted}


def main() -> None:
    """Write untrained weights of the final shape, for speed measurements before training."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", type=Path, default=Path("src/ninfer/bundled_model"), help="folder with the config")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--force", action="store_true", help="replace weights that are there")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if (args.out / INDEX).exists() and not args.force:
        parser.error(f"{args.out} holds weights; --force replaces them")
    shape = Shape.load(args.model)
    print(save(fresh_weights(shape, args.seed, torch.device("cpu")), shape, args.out))


if __name__ == "__main__":
    main()
