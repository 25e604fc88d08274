"""Every planted fault still finds its place in the code. That each of them is found is what `make mutants` shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.mutants import ROOT, list_patches, plant, read_hunks


def test_the_list_is_long_enough() -> None:
    """At least 25 faults, in stores, program, resource, scheduler and engine; each says why it is one."""
    names = [patch.stem for patch in list_patches()]
    assert len(names) >= 25
    assert {name.split("_")[0] for name in names} == {"store", "program", "resource", "sched", "engine"}
    for patch in list_patches():
        assert patch.read_text().split("\n")[0].endswith("."), f"{patch.stem} has no reason in front"


@pytest.mark.parametrize("patch", list_patches(), ids=lambda patch: patch.stem)
def test_a_planted_fault_applies(patch: Path, tmp_path: Path) -> None:
    """Where the lines have changed, the fault must be planted anew, at the place that does its work now."""
    for hunk in read_hunks(patch.read_text()):
        copy = tmp_path / hunk.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / hunk.path).read_text())
    assert plant(patch, tmp_path) is None
    for hunk in read_hunks(patch.read_text()):
        assert (tmp_path / hunk.path).read_text() != (ROOT / hunk.path).read_text()


def test_a_hunk_is_found_by_its_lines_alone(tmp_path: Path) -> None:
    """Moved lines and changed neighbours do no harm; two possible places do."""
    patch = tmp_path / "fault.patch"
    patch.write_text("Why.\n\n--- a/code.py\n+++ b/code.py\n@@ -1,3 +1,3 @@\n one\n-two\n+three\n four\n")
    code = tmp_path / "code.py"
    for text, expected in (
        ("zero\none\ntwo\nfour\n", "zero\none\nthree\nfour\n"),
        ("ONE\ntwo\nfour\n", "ONE\nthree\nfour\n"),
        ("one\ntwo\n4\n", "one\nthree\n4\n"),
        ("one\ntwo\n\ntwo\n", "one\nthree\n\ntwo\n"),
    ):
        code.write_text(text)
        assert plant(patch, tmp_path) is None
        assert code.read_text() == expected
    for text in ("one\n2\nfour\n", "two\n", "one\ntwo\none\ntwo\n"):
        code.write_text(text)
        assert plant(patch, tmp_path) == "the patch does not apply: hunk 1 finds no one place in code.py"
