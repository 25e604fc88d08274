"""What the README tells a newcomer to type is true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block_after(marker: str) -> str:
    """The fenced block behind an HTML comment."""
    found = re.search(rf"<!-- {marker} -->\n```\w*\n(.*?)```", README, re.DOTALL)
    assert found, f"README has no block marked {marker!r}"
    return found[1]


def test_the_library_example_runs() -> None:
    """In a process of its own, as a reader would run it; the bundled model knows the name it was told."""
    done = subprocess.run(
        [sys.executable, "-c", block_after("library example")], check=True, capture_output=True, text=True, timeout=120
    )
    assert "Finished" in done.stdout
    assert "Mira" in done.stdout.splitlines()[-1]
    assert len([line for line in block_after("library example").splitlines() if line.strip()]) <= 10


def test_the_test_command_is_the_make_target() -> None:
    assert block_after("test command").strip() == "make test"


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("line", re.findall(r"^\.venv/bin/ninfer (.*?)\s*(?:#.*)?$", README, re.MULTILINE))
def test_each_command_of_the_readme_is_known(line: str) -> None:
    """Its sub-command exists and takes the options it is shown with."""
    words = shlex.split(line)
    usage = subprocess.run(
        [sys.executable, "-m", "ninfer", words[0], "--help"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    for option in [word for word in words if word.startswith("--")]:
        assert option in usage, f"{option} is not an option of {words[0]}"


def test_files_named_by_the_architecture_page_exist() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", page)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / "src" / "ninfer" / name).exists()] == []
