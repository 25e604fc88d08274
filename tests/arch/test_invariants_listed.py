"""Each numbered invariant that is in force has an assertion in the code and a test that cites it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (V-\d\d) \| (.+?) \| (in force|later) \|", re.MULTILINE)


def sources(top: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / top).rglob("*.py")))


def test_invariants_in_force_are_asserted_and_tested() -> None:
    rows = ROW.findall((ROOT / "docs" / "invariants.md").read_text())
    assert [number for number, _, _ in rows] == [f"V-{n:02d}" for n in range(1, 17)]
    code, tests = sources("src"), sources("tests")
    missing = [n for n, _, status in rows if status == "in force" and (n not in code or n not in tests)]
    assert not missing, f"in force, but not cited in src and tests: {missing}"


def test_only_listed_invariants_are_cited() -> None:
    listed = set(re.findall(r"V-\d\d", (ROOT / "docs" / "invariants.md").read_text()))
    assert set(re.findall(r"V-\d\d", sources("src"))) <= listed
