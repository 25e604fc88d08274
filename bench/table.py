"""Rows of figures with their goals, as text."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `met` is None where there is no goal."""

    name: str
    value: float
    unit: str
    goal: str = ""
    met: bool | None = None

    def line(self) -> str:
        """One line of the table."""
        mark = {True: "ok", False: "MISSED", None: ""}[self.met]
        return f"{self.name:<52} {self.value:>12,.3f} {self.unit:<10} {self.goal:<18} {mark}".rstrip()


def circumstances() -> str:
    """Hardware and commit: no figure without them."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True)
    dirty = subprocess.run(["git", "status", "--porcelain"], check=False, capture_output=True, text=True).stdout.strip()
    commit = (git.stdout.strip() or "unknown") + ("+changes" if dirty else "")
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, commit {commit}"
