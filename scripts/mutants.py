"""Plants one small fault at a time into a copy of the package; simulated worlds or state machines must find it.

    python -m scripts.mutants [--jobs N] [NAME ...]

Each file in tests/mutations is a patch with its reason in front. The unchanged copy must pass first. A patch must still
apply; then seeds are run until one fails, and the state machines. A mutant that nothing finds is a missing check: the
exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_KILLED = (-signal.SIGXCPU, -signal.SIGKILL)
ROOT = Path(__file__).resolve().parents[1]
MUTATIONS = ROOT / "tests" / "mutations"
COPIED = ("src", "tests/machines")
FIRST_SEEDS = (0, 8)
"""First seed and count: most faults show in the first few worlds, the others in the machines or in more of them."""
MORE_SEEDS = (8, 40)
CLEAN_SEEDS = (0, 24)
MOST_CPU_S = 240
"""A search that runs longer never ends: the unchanged copy needs a tenth of it for worlds, a fifth for machines."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of one file that stand together, before and after. `margins`: context lines in front and behind."""

    path: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    margins: tuple[int, int]


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
    patches = [path for path in list_patches() if not given.names or path.stem in given.names]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        clean = make_copy(Path(folder) / "clean")
        problem = find_failure(clean, [CLEAN_SEEDS, None])
        if problem is not None:
            print(f"the unchanged copy fails: {problem}")
            return 1
        print("the unchanged copy passes", flush=True)
        with ThreadPoolExecutor(given.jobs) as pool:
            verdicts = list(pool.map(lambda path: _judge_and_say(path, Path(folder) / path.stem), patches))
    return _print_totals(verdicts)


def list_patches() -> list[Path]:
    """All planted faults, by name."""
    return sorted(MUTATIONS.glob("*.patch"))


def make_copy(target: Path) -> Path:
    """What worlds and machines need of the repository, without caches."""
    for part in COPIED:
        shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    return target


def judge(patch: Path, copy: Path) -> Verdict:
    """Apply one patch to a fresh copy and look for its fault."""
    make_copy(copy)
    problem = plant(patch, copy)
    if problem is not None:
        return Verdict(patch.stem, None, problem)
    found = find_failure(copy, [FIRST_SEEDS, None, MORE_SEEDS])
    shutil.rmtree(copy)
    return Verdict(patch.stem, found)


def plant(patch: Path, root: Path) -> str | None:
    """Change the files under `root`; None, or which part of the patch does not apply.

    Line numbers do not count: a hunk's lines must stand in the file exactly once, context and all, or without the
    outer lines of its context where those have changed; one line of context must be right.
    """
    hunks = list(read_hunks(patch.read_text()))
    if not hunks:
        return "the patch does not apply: it has no hunk"
    for number, hunk in enumerate(hunks, 1):
        file = root / hunk.path
        lines = file.read_text().split("\n") if file.exists() else []
        changed = _replace_once(lines, hunk)
        if changed is None:
            return f"the patch does not apply: hunk {number} finds no one place in {hunk.path}"
        file.write_text("\n".join(changed))
    return None


def read_hunks(text: str) -> Iterator[Hunk]:
    """The hunks of a unified diff. What stands in front of the first file is its reason."""
    path, body = "", list[str]()
    for line in [*text.split("\n"), "--- a/end"]:
        if line.startswith(("--- a/", "+++ b/", "@@")):
            if body and path:
                yield _make_hunk(path, body)
            body = []
            path = line[6:] if line.startswith("--- a/") else path
        elif path:
            body.append(line)


def find_failure(copy: Path, searches: Iterable[tuple[int, int] | None]) -> str | None:
    """The first seed or state machine that fails in this copy, in words; None when all pass.

    `searches`, in order: first seed and count of worlds, or None for the state machines.
    """
    for search in searches:
        found = _try_machines(copy) if search is None else _try_seeds(copy, *search)
        if found is not None:
            return found
    return None


def _make_hunk(path: str, body: list[str]) -> Hunk:
    while body and not body[-1]:
        body.pop()  # the end of the file, or an empty line before the next one
    kinds = [line[:1] or " " for line in body]
    assert set(kinds) <= {" ", "-", "+"}, f"no line of a diff: {body}"
    before = tuple(line[1:] for line, kind in zip(body, kinds, strict=True) if kind != "+")
    after = tuple(line[1:] for line, kind in zip(body, kinds, strict=True) if kind != "-")
    changed = [index for index, kind in enumerate(kinds) if kind != " "]
    return Hunk(path, before, after, (changed[0], len(kinds) - 1 - changed[-1]))


def _replace_once(lines: list[str], hunk: Hunk) -> list[str] | None:
    """With the whole context, or as much of it as leaves exactly one place; None: there is no such place."""
    front, behind = hunk.margins
    cuts = sorted(((a, b) for a in range(front + 1) for b in range(behind + 1)), key=lambda cut: (sum(cut), cut))
    if front + behind:  # a line without any neighbour may be another one
        cuts.remove((front, behind))
    for first, last in cuts:
        before = list(hunk.before[first : len(hunk.before) - last])
        after = hunk.after[first : len(hunk.after) - last]
        places = [at for at in range(len(lines)) if before and lines[at : at + len(before)] == before]
        if len(places) == 1:
            return [*lines[: places[0]], *after, *lines[places[0] + len(before) :]]
    return None


def _try_seeds(copy: Path, seed: int, count: int) -> str | None:
    result = _python(["-m", "ninfer", "sim", "--seed", str(seed), "--count", str(count), "--first"], copy)
    if result.returncode in _KILLED:
        return f"seeds from {seed} on never end"
    if result.returncode == 0:
        return None
    lines = (result.stdout + result.stderr).splitlines()
    return next((line for line in lines if line.startswith("seed ")), lines[-1] if lines else "the command")


def _try_machines(copy: Path) -> str | None:
    result = _python(["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "tests/machines"], copy)
    if result.returncode in _KILLED:
        return "the machines never end"
    if result.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    reason = re.findall(r"^E +(\w*Error\S*:? .*)", result.stdout, re.MULTILINE)
    words = f": {reason[-1][:120]}" if reason else ""
    return f"machine {named[1]}{words}" if named else f"machines: {result.stdout[-300:]}"


def _python(arguments: list[str], copy: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    command = ["sh", "-c", f'ulimit -t {MOST_CPU_S}; exec "$@"', "sh", sys.executable, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)


def _judge_and_say(patch: Path, copy: Path) -> Verdict:
    verdict = judge(patch, copy)
    print(f"{verdict.name}: {verdict.problem or verdict.found_by or 'NOT FOUND'}", flush=True)
    return verdict


def _print_totals(verdicts: list[Verdict]) -> int:
    missed = [verdict.name for verdict in verdicts if verdict.found_by is None]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} found, {used.ru_utime + used.ru_stime:.0f} s of processor")
    for name in missed:
        print(f"  missed: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
