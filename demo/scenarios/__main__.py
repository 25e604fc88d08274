"""`python -m demo.scenarios [M1 M5 ...] [--seed N]`: play the rows of the table; exit status 1 if one breaks a promise.

Each row has a server of its own with the bundled model and little room, in float64: there an answer does not depend on
what runs beside it.
"""

from __future__ import annotations

import argparse
import sys

from demo.scenarios import histories, shortage
from demo.scenarios.stage import Scenario, Stage
from demo.server import running_server

SMALL = ("--dtype", "float64", "--threads", "1")
TABLE = tuple(sorted((*histories.SCENARIOS, *shortage.SCENARIOS), key=lambda scenario: scenario.name[:2]))


def play(scenario: Scenario, seed: int) -> Stage:
    """One row, on a fresh server. What the play raises is one more problem."""
    with running_server(*SMALL, *scenario.options) as url:
        stage = Stage(url, seed)
        try:
            scenario.play(stage)
        except Exception as error:
            stage.problems.append(f"{type(error).__name__}: {error}")
        finally:
            stage.close()
    return stage


def main() -> int:
    """What each row promises, and what happened."""
    parser = argparse.ArgumentParser(prog="python -m demo.scenarios", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names, such as M5; default: all")
    parser.add_argument("--seed", type=int, default=1, help="draws names, words and tools")
    given = parser.parse_args()
    chosen = [row for row in TABLE if not given.rows or row.name[:2] in given.rows]
    broken = []
    for row in chosen:
        print(f"{row.name}: {row.promise}\n  serve {' '.join((*SMALL, *row.options))}", flush=True)
        stage = play(row, given.seed)
        for note in stage.notes:
            print(f"  {note}")
        for problem in stage.problems:
            print(f"  NOT AS PROMISED: {problem}")
        print("  " + ("broken" if stage.problems else "kept"), flush=True)
        broken += [row.name] * bool(stage.problems)
    scenes = len({row.name[:2] for row in chosen})
    print(f"{scenes} scenarios in {len(chosen)} rows, {len(broken)} broken{': ' if broken else ''}{', '.join(broken)}")
    return 1 if broken or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
