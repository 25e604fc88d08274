"""`python -m bench [NAME...] [--no-gate]`: print the figures of the named scenarios, or of all."""

from __future__ import annotations

import argparse
import sys

from bench.gate import passes
from bench.registry import SCENARIOS
from bench.table import circumstances


def main() -> int:
    """Exit status 1 when a goal was missed, 2 when tests failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--no-gate", action="store_true", help="measure without running the tests first")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}; there are: {', '.join(SCENARIOS)}")
    missed = 0
    for name in chosen.names or list(SCENARIOS):
        scenario = SCENARIOS[name]
        if not chosen.no_gate and not passes(scenario.gate):
            print(f"{name}: its tests fail, so there are no figures", file=sys.stderr)
            return 2
        print(f"# {name}: {scenario.about} ({circumstances()})", flush=True)
        for row in scenario.load()():
            print(row.line(), flush=True)
            missed += row.met is False
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
