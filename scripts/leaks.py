"""Serves thousands of simulated requests, with cancels and faults, and counts what is left of them.

    python -m scripts.leaks [--seed S] [--requests N]

Each world lives in one engine. Free slots, pages and host bytes, objects of the record types and open files must be
what they were: the exit status is 1 when they are not.
"""

from __future__ import annotations

import argparse
import sys

from ninfer.sim.counts import Counts
from ninfer.sim.leaks import live_long
from ninfer.sim.world import WorldFailure


def main() -> int:
    """A line a world, and the figures of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=10_000)
    given = parser.parse_args()
    total, is_clean = Counts(), True
    try:
        for report in live_long(given.seed, given.requests):
            total.add(report.counts)
            is_clean &= not report.left
            print(
                f"world {report.seed}: {report.counts.requests} requests, left: {'; '.join(report.left) or 'nothing'}",
                flush=True,
            )
    except WorldFailure as failure:
        print(f"failed in {failure}")
        return 1
    print(total.line())
    print("nothing is left" if is_clean else "something is left")
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
