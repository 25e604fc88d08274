"""The performance page is what its script makes of the results: no figure in it is typed by hand."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.performance import CELLS, FOLDER, PAGE, render

from ninfer.sim.replay.geometries import GEOMETRY_NAMES


def test_the_page_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_cells_and_peers_fit() -> None:
    peers = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))
    names = [cell.name for cell in CELLS]
    assert len(set(names)) == len(names)
    assert set(peers["cells"]) <= set(names)
    assert all(len(row) == len(peers["cells"]) for row in peers["rows"].values())
    assert {cell.geometry for cell in CELLS} <= set(GEOMETRY_NAMES)


def test_results_belong_to_cells() -> None:
    results = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    policies = {name.split()[1] for name in results}
    assert {name.split()[0] for name in results} <= {cell.name for cell in CELLS}
    assert policies <= {"ours", "lru", "root"}
    assert all(Path(cell.words("ours")[0]).suffix == ".gz" for cell in CELLS)
