"""What may import what, seen from the outside: the light half of the package loads without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

TORCH_FREE = ("base", "config", "ports", "store", "sched", "resource", "program", "frontend", "engine", "server", "sim")


def imported_torch(statement: str) -> bool:
    code = f"{statement}; import sys; sys.exit(3 if 'torch' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode == 3


def test_policies_and_stores_load_without_torch() -> None:
    assert not imported_torch(
        "; ".join(f"import ninfer.{name}" for name in ("", *TORCH_FREE)).replace("ninfer.;", "ninfer;")
    )


def test_the_probe_can_see_torch() -> None:
    assert imported_torch("import torch")


@pytest.mark.parametrize("module", ["ninfer", "ninfer.cli.main"])
def test_the_command_line_starts_without_torch(module: str) -> None:
    assert not imported_torch(f"import {module}")


def test_assertions_are_part_of_the_program() -> None:
    """The entry point refuses to start when Python was told to drop assertions."""
    done = subprocess.run(
        [sys.executable, "-O", "-m", "ninfer", "--version"], check=False, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "-O" in done.stderr
