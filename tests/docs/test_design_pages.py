"""The pages of docs/design: each says which modules it describes, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
STATEMENTS = "requirements.md"
"""The numbered statements; docs/conformance.md lists the modules of each."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_page_lists_modules_that_exist(page: Path) -> None:
    text = page.read_text()
    if page.name == STATEMENTS:
        assert "conformance.md" in text
        return
    found = re.search(r"^Modules: ((?:.|\n(?!\n))*)", text, re.MULTILINE)
    assert found, f"{page.name} has no paragraph that begins with 'Modules:'"
    modules = re.findall(r"`([\w/.]+)`", found[1])
    assert modules
    assert [name for name in modules if not (ROOT / "src" / "ninfer" / name).exists()] == []
