"""Plants one small fault at a time into a copy of the package; simulated worlds or state machines must find it.

    python -m scripts.mutants [--jobs N] [NAME ...]

Each file in tests/mutations is a patch with its reason in front. The unchanged copy must pass first. A patch must still
apply; then seeds are run until one fails, and after them the state machines. A mutant that nothing finds is a missing
check: the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MUTATIONS = ROOT / "tests" / "mutations"
COPIED = ("src", "tests/machines")
SEED_STEPS = ((0, 8), (8, 36))
"""First seed and count: most faults show in the first few worlds."""
CLEAN_SEEDS = 24
TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Verdict:
    """`found_by`: None when nothing did. `problem`: why the mutant could not be judged."""

    name: str
    found_by: str | None
    problem: str | None = None


def main() -> int:
    """Judge the named mutants, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    patches = [path for path in sorted(MUTATIONS.glob("*.patch")) if not given.names or path.stem in given.names]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        clean = make_copy(Path(folder) / "clean")
        problem = find_failure(clean, [(0, CLEAN_SEEDS)])
        if problem is not None:
            print(f"the unchanged copy fails: {problem}")
            return 1
        print("the unchanged copy passes", flush=True)
        with ThreadPoolExecutor(given.jobs) as pool:
            verdicts = list(pool.map(lambda path: _judge_and_say(path, Path(folder) / path.stem), patches))
    return _print_totals(verdicts)


def make_copy(target: Path) -> Path:
    """What worlds and machines need of the repository, without caches."""
    for part in COPIED:
        shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    return target


def judge(patch: Path, copy: Path) -> Verdict:
    """Apply one patch to a fresh copy and look for its fault."""
    make_copy(copy)
    applied = _run(["patch", "-p1", "--forward", "--fuzz=2", "-i", str(patch)], copy, timeout_s=60)
    if applied.returncode != 0:
        return Verdict(patch.stem, None, "the patch does not apply")
    found = find_failure(copy, SEED_STEPS)
    shutil.rmtree(copy)
    return Verdict(patch.stem, found)


def find_failure(copy: Path, seed_steps: Iterable[tuple[int, int]]) -> str | None:
    """The first seed or state machine that fails in this copy, in words; None when all pass."""
    for seed, count in seed_steps:
        command = ["-m", "ninfer", "sim", "--seed", str(seed), "--count", str(count), "--first"]
        try:
            result = _python(command, copy)
        except subprocess.TimeoutExpired:
            return f"seeds from {seed} on never end"
        if result.returncode != 0:
            lines = (result.stdout + result.stderr).splitlines()
            return next((line for line in lines if line.startswith("seed ")), lines[-1] if lines else "the command")
    machines = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "tests/machines"]
    try:
        result = _python(machines, copy)
    except subprocess.TimeoutExpired:
        return "the machines never end"
    if result.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return f"machine {named[1]}" if named else f"machines: {result.stdout[-300:]}"


def _python(arguments: list[str], copy: Path) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, *arguments], copy, timeout_s=TIMEOUT_S)


def _run(command: list[str], folder: Path, *, timeout_s: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s)


def _judge_and_say(patch: Path, copy: Path) -> Verdict:
    verdict = judge(patch, copy)
    print(f"{verdict.name}: {verdict.problem or verdict.found_by or 'NOT FOUND'}", flush=True)
    return verdict


def _print_totals(verdicts: list[Verdict]) -> int:
    missed = [verdict.name for verdict in verdicts if verdict.found_by is None]
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} found")
    for name in missed:
        print(f"  missed: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
