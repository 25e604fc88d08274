"""How much memory this process may still take, as far as the system tells."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_memory_bytes(root: Path = Path("/")) -> int | None:
    """The least of what the machine and a container's limit leave; None where neither can be read."""
    found = [value for value in (_machine_bytes(root), *_container_bytes(root)) if value is not None]
    return min(found) if found else None


def _machine_bytes(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return _physical_bytes() if root == Path("/") else None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _physical_bytes() -> int | None:
    names = os.sysconf_names if hasattr(os, "sysconf_names") else {}
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _container_bytes(root: Path) -> list[int]:
    """What each limit leaves; a file that says "max", or is not there, sets none."""
    left = []
    for limit_file, used_file in _CGROUP_FILES:
        limit, used = (_read_count(root / name.lstrip("/")) for name in (limit_file, used_file))
        if limit is not None and used is not None:
            left.append(max(limit - used, 0))
    return left


def _read_count(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
