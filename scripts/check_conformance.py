"""Checks docs/conformance.md: every requirement id has a row, and no row says "done" without a test that cites it.

    python scripts/check_conformance.py

A row: `| id | status | code | test |`. Status is `done`, or the letter of the milestone that will bring the rest
(`A` to `E`, listed at the top of that page). Code and test are paths relative to the repository; several are
separated by commas. The test of a done row must contain the id in brackets, as in `[F3]`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ID = re.compile(r"^- ([A-N]\d+) ", re.MULTILINE)
ROW = re.compile(r"^\| ([A-N]\d+) \|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE)
MILESTONES = frozenset("BCDE")


def find_problems(requirements: str, conformance: str, root: Path) -> list[str]:
    """One line per problem; empty when the page is true as far as a script can see."""
    wanted = ID.findall(requirements)
    rows = {row[0]: tuple(cell.strip() for cell in row[1:]) for row in ROW.findall(conformance)}
    problems = [f"{name}: no row" for name in wanted if name not in rows]
    problems += [f"{name}: a row for an id that does not exist" for name in rows if name not in wanted]
    for name, (status, code, tests) in rows.items():
        if status != "done" and status not in MILESTONES:
            problems.append(f"{name}: status {status!r} is neither done nor a milestone")
        paths = [path.strip(" `") for path in (code + "," + tests).split(",") if path.strip(" `")]
        problems += [f"{name}: {path} does not exist" for path in paths if not (root / path).exists()]
        if status == "done":
            cited = [path.strip(" `") for path in tests.split(",") if path.strip(" `")]
            if not cited:
                problems.append(f"{name}: done without a test")
            problems += [f"{name}: {path} does not cite [{name}]" for path in cited if not _cites(root / path, name)]
    return problems


def _cites(path: Path, name: str) -> bool:
    """Whether the file holds the id inside brackets: `[D4]`, or in a list `[D2, D4]`."""
    if not path.is_file():
        return False
    return any(
        name in re.split(r"[,\s]+", group)
        for group in re.findall(r"\[([A-N]\d+(?:[,\s]+[A-N]\d+)*)\]", path.read_text())
    )


def main() -> int:
    """Print the problems; exit status 1 when there are any."""
    problems = find_problems(
        (ROOT / "docs" / "design" / "requirements.md").read_text(), (ROOT / "docs" / "conformance.md").read_text(), ROOT
    )
    print("\n".join(problems) or "conformance.md: every id has its row, every done row its test")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
