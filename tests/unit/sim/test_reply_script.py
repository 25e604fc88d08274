"""Scripts give each prompt its reply, in exactly the runs a test asks for."""

from __future__ import annotations

import pytest

from ninfer.base.pools import Pool
from ninfer.ports.native import Bound
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import Driver, make_prompt
from ninfer.sim.script import MAX_RUN_TOKENS, ReplyScript, cut_at, cut_every

END = 2


def reply_for(prompt: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return cut_every([prompt[-1] * 10 + index for index in range(7)], 3)


def test_cuts_keep_the_text_and_the_limit() -> None:
    reply = list(range(20))
    assert cut_every(reply, 8) == (tuple(range(8)), tuple(range(8, 16)), tuple(range(16, 20)))
    for offset in range(21):
        runs = cut_at(reply, offset)
        assert [token for run in runs for token in run] == reply
        assert all(1 <= len(run) <= MAX_RUN_TOKENS for run in runs)
        assert offset in {0, 20} or offset in {sum(map(len, runs[:count])) for count in range(len(runs))}


@pytest.mark.parametrize("late", [0, 3])
def test_two_conversations_get_their_own_replies_in_turns(late: int) -> None:
    """The reply follows the prompt, whatever the lane and the order of draws."""
    device = SimDevice(slots=4, pages={Pool.MAIN_KV: 20}, script=ReplyScript(reply_for, END), faults=SimFaults(1, late))
    driver = Driver(device)
    sequences, said = [], {}
    for lane, last in enumerate((4, 5)):
        bound = driver.start(make_prompt([9] * 30 + [last]), lane=lane)
        assert isinstance(bound, Bound)
        driver.prefill(bound.sequence, 31)
        sequences.append(bound.sequence)
        said[bound.sequence] = driver.draw(bound.sequence, decode=False)
    for _ in range(3):
        for sequence in sequences:
            said[sequence] += driver.draw(sequence, decode=True)
    assert [said[sequence] for sequence in sequences] == [[*range(40, 47), END], [*range(50, 57), END]]


def test_the_same_prompt_again_starts_the_reply_anew() -> None:
    device = SimDevice(slots=4, pages={Pool.MAIN_KV: 20}, script=ReplyScript(reply_for, END))
    driver = Driver(device)
    for _ in range(2):
        bound = driver.start(make_prompt([9, 4]))
        assert isinstance(bound, Bound)
        driver.prefill(bound.sequence, 2)
        assert driver.generate(bound.sequence, 2) == [40, 41, 42, 43, 44, 45]
        driver.program.freeze_end(bound.sequence)
