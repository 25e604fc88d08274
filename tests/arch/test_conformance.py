"""docs/conformance.md is complete, and the script that says so can say no."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_conformance", ROOT / "scripts" / "check_conformance.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_true(script: ModuleType) -> None:
    requirements = (ROOT / "docs" / "design" / "requirements.md").read_text()
    problems = script.find_problems(requirements, (ROOT / "docs" / "conformance.md").read_text(), ROOT)
    assert problems == []


def test_a_missing_row_a_false_done_and_a_wrong_path_are_seen(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text('"""[A1]"""')
    requirements = "- A1 one\n- A2 two\n- B1 three\n"
    page = "| A1 | done | t.py | t.py |\n| A2 | done | t.py | t.py |\n"
    problems = script.find_problems(requirements, page, tmp_path)
    assert problems == ["B1: no row", "A2: t.py does not cite [A2]"]
    page = "| A1 | done | gone.py | t.py |\n| A2 | soon | | |\n| B1 | B | | |\n| Z9 | B | | |\n"
    problems = script.find_problems(requirements, page, tmp_path)
    assert "A1: gone.py does not exist" in problems
    assert any(problem.startswith("A2: status") for problem in problems)
