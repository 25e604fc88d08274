"""A Program with a host arena on a late simulated device, and steps that wait for its transactions."""

from __future__ import annotations

from ninfer.base.ids import Handle
from ninfer.base.pools import Pool
from ninfer.ports.native import Bound, Demoting
from ninfer.ports.transactions import TransactionEnd
from ninfer.program.program import Program
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import Driver, make_prompt

PAGE = 64 * 1024
IMAGE = 1024 * 1024
MAIN = Pool.MAIN_KV


def make_driver(
    *, slots: int = 4, pages: int = 20, host: int = 8 * IMAGE, late: int = 2, failures: float = 0.0, seed: int = 1
) -> Driver:
    faults = SimFaults(seed, late, host_failures=failures)
    device = SimDevice(slots=slots, pages={MAIN: pages}, faults=faults, check_every=1, host_bytes=host)
    driver = Driver(device)
    driver.program = Program(device, device)
    return driver


def drain(driver: Driver) -> list[TransactionEnd]:
    """Poll until no transaction is under way."""
    for _ in range(50):
        driver.program.poll()
        driver.program.audit()
        if not driver.program.transaction_open:
            break
    return driver.program.collect_ends()


def bind(driver: Driver, tokens: list[int], point: Handle | None, *, takes_over: bool = False) -> Bound:
    bound = driver.start(make_prompt(tokens), point, takes_over=takes_over)
    assert isinstance(bound, Bound)
    return bound


def make_end(driver: Driver, tokens: list[int]) -> Handle:
    bound = bind(driver, tokens, None)
    driver.prefill(bound.sequence, len(tokens))
    return driver.program.freeze_end(bound.sequence)


def go_on(driver: Driver, tokens: list[int], point: Handle, *, takes_over: bool) -> None:
    """Continue from the point and compare with the closed form (V-15)."""
    prompt = [*tokens, 1, 2, 3]
    bound = bind(driver, prompt, point, takes_over=takes_over)
    driver.prefill(bound.sequence, len(prompt) - bound.frontier)
    assert driver.generate(bound.sequence, 5) == expected_tokens(prompt, 5, vocab_tokens=1000)
    driver.program.release(bound.sequence)


def demote_all(driver: Driver, pool: Pool) -> int:
    """Every action of a pool, one after another; returns how many there were."""
    count = 0
    while actions := driver.program.list_demote_actions(pool):
        before = driver.program.occupancy().free
        outcome = driver.program.demote(actions[0])
        assert isinstance(outcome, Demoting)
        drain(driver)
        gained = driver.program.occupancy().free - before
        assert gained[pool] == actions[0].frees[pool]
        count += 1
    return count
