"""`ninfer inspect`: what a model is and what it would need. Reads config.json only; loads no weights and no torch."""

from __future__ import annotations

import json
from typing import Any

import click

from ninfer.base.pools import Pool
from ninfer.cli.engine_options import engine_options, find_model_name, read_engine_options
from ninfer.cli.spelling import spell_names
from ninfer.config.geometry import KvFormat, ModelGeometry, NumericFormat, read_geometry
from ninfer.config.options import EngineOptions
from ninfer.device.capacity import MemoryBudget, plan_capacity


@click.command("inspect")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(**given: Any) -> int:
    """Show geometry, bytes a KV page and a StateImage, and the capacity plan of MODEL_DIR with these options.

    MODEL_DIR: or NINFER_MODEL_DIR; default: the bundled model.
    """
    options = read_engine_options(given)
    report = inspect(options)
    if given["as_json"]:
        click.echo(json.dumps(report))
    else:
        click.echo("\n".join(_list_lines(report)))
    return 0


def inspect(options: EngineOptions) -> dict[str, Any]:
    """The report. Raises ModelFileError, BadInput."""
    geometry = read_geometry(options.model_dir)
    numeric_format: NumericFormat = "float32" if options.dtype == "auto" else options.dtype
    kv_format: KvFormat = numeric_format if options.kv_dtype == "auto" else options.kv_dtype
    formats = {Pool.MAIN_KV: kv_format, Pool.MTP_KV: numeric_format}
    plan = plan_capacity(geometry, numeric_format, options, MemoryBudget())
    notes = {"notes": spell_names("; ".join(plan.notes))} if plan.notes else {}
    pools = [Pool.MAIN_KV] + ([Pool.MTP_KV] if geometry.mtp_layers else [])
    return {
        "model": find_model_name(options.model_dir),
        "geometry": _report_geometry(geometry),
        "dtype": numeric_format,
        "kv_dtype": kv_format,
        "state_bytes": geometry.state_bytes(numeric_format),
        "kv_page_bytes": {pool.value: geometry.kv_page_bytes(pool, formats[pool]) for pool in pools},
        "kv_token_bytes": {pool.value: geometry.kv_token_bytes(pool, formats[pool]) for pool in pools},
        "plan": plan.report(),
        **notes,
    }


def _report_geometry(geometry: ModelGeometry) -> dict[str, Any]:
    return {
        "architecture": geometry.architecture,
        "layers": len(geometry.layers),
        "linear_layers": geometry.linear_layers,
        "full_layers": geometry.full_layers,
        "hidden": geometry.hidden,
        "vocab_rows": geometry.vocab_rows,
        "max_positions": geometry.max_positions,
        "heads": geometry.attention.heads,
        "kv_heads": geometry.attention.kv_heads,
        "head_dim": geometry.attention.head_dim,
        "experts": 0 if geometry.moe is None else geometry.moe.experts,
        "mtp_layers": geometry.mtp_layers,
        "vision": geometry.vision is not None,
        "text_parameters": geometry.text_parameters,
        "active_parameters": geometry.active_parameters,
    }


def _list_lines(report: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines.append(f"{name}:")
            lines.extend(f"  {key:<18} {_show(key, item)}" for key, item in value.items())
        else:
            lines.append(f"{name + ':':<20} {_show(name, value)}")
    return lines


def _show(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_show(key, item)}" for key, item in value.items())
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    grouped = f"{value:,}"
    return f"{grouped} ({value / 2**20:.1f} MiB)" if name.endswith("_bytes") and value >= 2**20 else grouped
