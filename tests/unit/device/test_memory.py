"""What the system says about free memory."""

from __future__ import annotations

from pathlib import Path

from ninfer.device.memory import free_memory_bytes


def write(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_least_of_machine_and_container_counts(tmp_path: Path) -> None:
    """[C2] kv_capacity auto starts from a budget that is really there."""
    assert free_memory_bytes(tmp_path) is None
    write(tmp_path, "proc/meminfo", "MemTotal: 2000 kB\nMemAvailable:     1000 kB\n")
    assert free_memory_bytes(tmp_path) == 1000 * 1024
    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/memory.current", "5\n")
    assert free_memory_bytes(tmp_path) == 1000 * 1024
    write(tmp_path, "sys/fs/cgroup/memory.max", "700005\n")
    assert free_memory_bytes(tmp_path) == 700_000
    write(tmp_path, "sys/fs/cgroup/memory.current", "800000\n")
    assert free_memory_bytes(tmp_path) == 0


def test_this_machine_has_some() -> None:
    free = free_memory_bytes()
    assert free is None or free > 0
