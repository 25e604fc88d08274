"""docs/recipes.md is complete and true: every id once, every test it names exists and cites the id."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([A-Z]+-\d\d) \| (.+?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
RECIPE = re.compile(r"\b[A-Z]+-\d\d\b")
REST = re.compile(r"(?:[BCDE]|later API)(?: \([^)]+\))?")

NUMBERS = {
    "CACHE": (1, 3, 5, 6, 8, 9, 11, 12, 14),
    "HYB": (1, 2, 4, 5, 6, 8, 9),
    "STATE": (3, 4, 5, 7, 8),
    "CONC": (1, 3, 4),
    "SCHED": (1, 3, 5, 6, 7, 9, 10, 12),
    "LIFE": (1, 2, 3, 5, 6),
    "TOOL": (1, 2, 4, 5, 7, 8, 10, 11, 12, 14),
    "THINK": (1, 3, 4),
    "RESP": (1, 3, 4, 6, 8, 9, 10),
    "ANTH": (1, 3, 4, 6, 7, 9, 10),
    "USE": (1, 3, 4),
    "SAMP": (1, 3, 4, 6, 7, 9, 10),
    "JSON": (1, 3),
    "LIMIT": (1, 3, 4, 6, 7),
    "MEDIA": (1, 3, 4),
    "OPS": (1, 3, 4, 6, 7, 8),
}
IDS = [f"{group}-{number:02d}" for group, numbers in NUMBERS.items() for number in numbers]
ROWS = [match.groups() for match in ROW.finditer((ROOT / "docs" / "recipes.md").read_text())]


def list_tests(path: Path) -> dict[str, set[str]]:
    """Test functions of a file, with the recipes that their docstrings cite."""
    tree = ast.parse(path.read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {node.name: set(RECIPE.findall(ast.get_docstring(node) or "")) for node in functions}


def named_tests(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_recipe_has_one_row() -> None:
    assert [recipe for recipe, _, _, _ in ROWS] == IDS
    assert len(IDS) == 90


@pytest.mark.parametrize(("recipe", "fault", "tests", "rest"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_names_tests_that_cite_it_or_what_will_bring_them(recipe: str, fault: str, tests: str, rest: str) -> None:
    assert fault
    assert tests or rest, "neither a test nor a milestone"
    assert not rest or REST.fullmatch(rest), rest
    for named in named_tests(tests):
        path, _, name = named.partition("::")
        assert (ROOT / path).is_file(), f"{path} does not exist"
        found = list_tests(ROOT / path)
        assert name in found, f"{path} has no {name}"
        assert recipe in found[name], f"{named} does not cite {recipe}"


def test_every_test_of_this_folder_is_in_the_table() -> None:
    listed = {(recipe, named) for recipe, _, tests, _ in ROWS for named in named_tests(tests)}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path == Path(__file__):
            continue
        for name, recipes in list_tests(path).items():
            assert recipes, f"{name} cites no recipe"
            for recipe in recipes:
                assert (recipe, f"{path.relative_to(ROOT)}::{name}") in listed, f"{recipe}: {name} is not listed"
