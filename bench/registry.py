"""What can be measured, and the tests that must pass before any of its numbers is printed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from bench.table import Row


@dataclass(frozen=True, slots=True)
class Scenario:
    """`module` has `measure() -> list[Row]`; it is imported only when asked for."""

    module: str
    gate: tuple[str, ...]
    about: str

    def load(self) -> Callable[[], list[Row]]:
        """The function that measures."""
        found: Callable[[], list[Row]] = importlib.import_module(self.module).measure
        return found


SCENARIOS: dict[str, Scenario] = {
    "http": Scenario("bench.http", ("tests/server", "tests/unit/engine"), "the bundled model over HTTP on the CPU"),
    "text": Scenario("bench.text", ("tests/unit/frontend",), "text work of a warm turn on a 100k-token conversation"),
    "cycle": Scenario("bench.cycle", ("tests/unit/engine",), "the control thread's own time in a decode cycle"),
    "gaps": Scenario("bench.gaps", ("tests/server",), "decoding lanes while clients post 100k-token prompts"),
    "store": Scenario("bench.store", ("tests/unit/store", "tests/unit/program"), "accounting on the control thread"),
    "policy": Scenario(
        "bench.policy", ("tests/unit/resource",), "source and reclaim for one admission; prefix look-up"
    ),
    "sim": Scenario("bench.sim", ("tests/sim",), "simulated worlds, audits and oracle included"),
    "ops": Scenario("bench.ops", ("tests/kernels",), "operators and whole steps on the CPU"),
}
