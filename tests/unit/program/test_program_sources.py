"""Sources: exact verification, Move and Fork, what rides along and what ends, and what a bind takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ninfer.base.buffers import IntBuffer
from ninfer.base.identity import MediaSpan
from ninfer.base.ids import Handle, LaneId
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import ZERO, Amounts, Pool
from ninfer.ports.native import Bound, HandOver, Prompt, SourceQuote
from ninfer.sim.chain import expected_tokens
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.sim.driver import Driver, make_prompt

VOCAB = 1000
PROMPT = [(7 * i * i + 3) % VOCAB for i in range(150)]


def new_driver(slots: int = 6, pages: int = 30, late: int = 0) -> Driver:
    return Driver(SimDevice(slots=slots, pages={Pool.MAIN_KV: pages}, faults=SimFaults(5, late)))


def bound_of(outcome: Bound | Shortfall) -> Bound:
    assert isinstance(outcome, Bound)
    return outcome


def first_turn(driver: Driver, *, input_at: int = 140, drawn: int = 10) -> tuple[Handle, Handle, list[int]]:
    """A first request: its END, its input point and the tokens it drew."""
    bound = bound_of(driver.start(make_prompt(PROMPT, [input_at])))
    point = driver.prefill(bound.sequence, len(PROMPT), capture_at=input_at)
    assert point is not None
    output = driver.generate(bound.sequence, drawn)
    assert output == expected_tokens(PROMPT, drawn, vocab_tokens=VOCAB)
    return driver.program.freeze_end(bound.sequence), point, output


def quote(driver: Driver, prompt: Prompt, point: Handle | None, *, takes_over: bool = True, first: int = 512,
          gives_up: bool = False) -> SourceQuote | None:  # fmt: skip
    return driver.program.quote_source(
        prompt, point, takes_over=takes_over, first_unit_tokens=first, gives_up_point=gives_up
    )


def must_quote(driver: Driver, prompt: Prompt, point: Handle | None, **options: bool | int) -> SourceQuote:
    found = quote(driver, prompt, point, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_point_serves_only_its_exact_prefix() -> None:
    """[D10] tokens, execution identity and media are compared; [A2] nothing shallower than the point will do."""
    driver = new_driver()
    end, point, output = first_turn(driver)
    whole = [*PROMPT, *output, 1]
    assert quote(driver, make_prompt(whole), end) is not None
    assert quote(driver, make_prompt(whole, identity=b"another model"), end) is None
    wrong = whole.copy()
    wrong[0] += 1
    assert quote(driver, make_prompt(wrong), end) is None
    assert quote(driver, make_prompt(wrong), point) is None
    assert quote(driver, make_prompt(whole[:158]), end) is None, "E lies at 159: the last drawn token is not fed"
    assert quote(driver, make_prompt(whole[:158]), point) is not None
    media = (MediaSpan(10, 20, b"picture", (1, 2, 5)),)
    assert quote(driver, replace(make_prompt(whole), media=media), end) is None


def test_an_end_lies_before_the_last_drawn_token() -> None:
    """[D8] ledger = execution + 1: the last committed token is still to be fed when the request ends."""
    driver = new_driver()
    end, point, output = first_turn(driver, drawn=10)
    assert driver.program.point_frontier(end) == len(PROMPT) + len(output) - 1
    assert driver.program.point_frontier(point) == 140


def test_taking_over_an_end_moves_its_state_and_carries_the_input_point() -> None:
    """[F1] [F3] [D6] [G8] no slot and no page is needed for what is already there."""
    driver = new_driver()
    end, point, output = first_turn(driver)
    prompt = make_prompt([*PROMPT, *output, 1, 2])
    found = must_quote(driver, prompt, end)
    assert (found.hand_over, found.takes_over) == (HandOver.MOVE, True)
    assert (found.carried, found.retires) == ((point,), ())
    assert found.need == ZERO
    assert found.copied_bytes == 0
    bound = bound_of(driver.program.bind(found, prompt, LaneId(0)))
    assert bound.consumed == (end,)
    with pytest.raises(AssertionError, match="V-13"):
        driver.program.point_frontier(end)
    driver.settle(bound.sequence)
    driver.prefill(bound.sequence, 3)
    assert driver.generate(bound.sequence, 4) == expected_tokens(list(prompt.tokens)[:162], 4, vocab_tokens=VOCAB)
    assert driver.device.fed_tokens == 150 + 9 + 3 + 3, "only new tokens are computed"


def test_going_back_to_the_input_point_retires_the_deeper_end_and_uses_its_room() -> None:
    """[F2] [G9] acceptance retires E, trims the history, and the freed slot becomes the active one."""
    driver = new_driver(slots=2)
    end, point, _ = first_turn(driver)
    assert driver.program.occupancy().free == Amounts(state=0, main_kv=27)
    prompt = make_prompt([*PROMPT[:140], *range(30)])
    found = must_quote(driver, prompt, point)
    assert found.hand_over is HandOver.FORK
    assert (found.carried, found.retires) == ((point,), (end,))
    assert found.need == ZERO, "one slot is taken and one is freed; three pages cover 170 tokens and are there"
    bound = bound_of(driver.program.bind(found, prompt, LaneId(0)))
    assert bound.consumed == (end,)
    assert bound.carried == (point,)
    driver.settle(bound.sequence)
    driver.prefill(bound.sequence, 30)
    assert driver.generate(bound.sequence, 3) == expected_tokens(list(prompt.tokens)[:170], 3, vocab_tokens=VOCAB)
    assert driver.program.point_frontier(point) == 140


def test_pages_above_the_input_point_return_at_acceptance() -> None:
    """[F2] the directory is trimmed to the largest coverage left."""
    driver = new_driver(pages=20)
    end, point, _ = first_turn(driver, input_at=60)
    prompt = make_prompt([*PROMPT[:60], 5])
    found = must_quote(driver, prompt, point)
    assert found.retires == (end,)
    before = driver.program.occupancy().free
    bound_of(driver.program.bind(found, prompt, LaneId(0)))
    assert driver.program.occupancy().free - before == Amounts(main_kv=2)


def test_a_bind_that_fails_retires_nothing() -> None:
    """[G4] every point is where it was, and the same quote serves once there is room."""
    driver = new_driver(slots=4, pages=5)
    end, point, _ = first_turn(driver)
    prompt = make_prompt([*PROMPT[:140], *range(400)])
    found = must_quote(driver, prompt, point, first=400)
    outcome = driver.program.bind(found, prompt, LaneId(0))
    assert outcome == Shortfall(Pool.MAIN_KV, 6, 2)
    assert driver.program.point_frontier(end) == 159
    driver.program.audit()
    bound_of(driver.program.bind(must_quote(driver, prompt, point, first=100), prompt, LaneId(0)))


def test_a_branch_shares_full_pages_and_copies_the_partial_tail() -> None:
    """[F2] [F3] the parent stays; the child takes a slot, a tail page, and what its first unit grows."""
    driver = new_driver(late=2)
    end, _, output = first_turn(driver)
    prompt = make_prompt([*PROMPT, *output, 1, 2])
    found = must_quote(driver, prompt, end, takes_over=False)
    assert (found.hand_over, found.takes_over, found.carried, found.retires) == (HandOver.FORK, False, (), ())
    assert found.need == Amounts(state=1, main_kv=1)
    assert found.copied_bytes == driver.device.facts.page_bytes[Pool.MAIN_KV]
    one, two = (bound_of(driver.start(make_prompt(prompt.tokens), end, lane=lane)) for lane in (0, 1))
    assert driver.program.occupancy().free == Amounts(state=2, main_kv=25)
    for bound in (one, two):
        driver.prefill(bound.sequence, 3)
        assert driver.generate(bound.sequence, 3) == expected_tokens(list(prompt.tokens), 3, vocab_tokens=VOCAB)
    assert driver.program.point_frontier(end) == 159


def test_a_branch_on_a_page_boundary_copies_nothing() -> None:
    """[F2]"""
    driver = new_driver()
    _, point, _ = first_turn(driver, input_at=128)
    found = must_quote(driver, make_prompt([*PROMPT[:128], 1]), point, takes_over=False)
    assert found.copied_bytes == 0
    assert found.need == Amounts(state=1, main_kv=1)


def test_a_history_with_a_writer_is_branched_not_taken_over() -> None:
    """[F1] points of a running request serve others. V-09: one writer a history."""
    driver = new_driver()
    bound = bound_of(driver.start(make_prompt(PROMPT, [70])))
    point = driver.prefill(bound.sequence, 100, capture_at=70)
    assert point is not None
    prompt = make_prompt([*PROMPT[:70], 9, 9])
    found = must_quote(driver, prompt, point, takes_over=True)
    assert not found.takes_over
    other = bound_of(driver.program.bind(found, prompt, LaneId(1)))
    driver.settle(other.sequence)
    driver.prefill(other.sequence, 2)
    driver.prefill(bound.sequence, 50)
    assert driver.generate(other.sequence, 3) == expected_tokens([*PROMPT[:70], 9, 9], 3, vocab_tokens=VOCAB)
    assert driver.generate(bound.sequence, 3) == expected_tokens(PROMPT, 3, vocab_tokens=VOCAB)


def test_a_shared_tail_is_copied_before_the_takeover_writes_it() -> None:
    """[F2] V-09: what a branch sees is immutable, so that the parent's new writer takes a copy of its tail page."""
    driver = new_driver(late=1)
    end, point, output = first_turn(driver, input_at=100)
    branch = bound_of(driver.start(make_prompt([*PROMPT, *output, 1]), end))
    prompt = make_prompt([*PROMPT[:100], *[4] * 60])
    found = must_quote(driver, prompt, point)
    assert found.takes_over
    assert found.copied_bytes == driver.device.facts.page_bytes[Pool.MAIN_KV], "page 64..127 is the branch's as well"
    bound = bound_of(driver.program.bind(found, prompt, LaneId(1)))
    driver.settle(bound.sequence)
    driver.prefill(bound.sequence, 60)
    assert driver.generate(bound.sequence, 2) == expected_tokens([*PROMPT[:100], *[4] * 60], 2, vocab_tokens=VOCAB)
    driver.prefill(branch.sequence, 2)
    assert driver.generate(branch.sequence, 2) == expected_tokens([*PROMPT, *output, 1], 2, vocab_tokens=VOCAB)


def test_an_end_that_is_being_read_is_not_moved() -> None:
    """[F3] V-03: a physical reader decides for Fork; the record still moves on and the old E ends with its reader."""
    driver = new_driver(late=3)
    end, _, output = first_turn(driver)
    prompt = make_prompt([*PROMPT, *output, 1])
    branch = bound_of(driver.start(make_prompt(prompt.tokens), end))
    found = must_quote(driver, prompt, end)
    assert (found.hand_over, found.takes_over, found.retires) == (HandOver.FORK, True, (end,))
    bound = bound_of(driver.program.bind(found, prompt, LaneId(1)))
    assert bound.consumed == (end,)
    driver.settle(bound.sequence)
    for sequence in (branch.sequence, bound.sequence):
        driver.prefill(sequence, 2)
        assert driver.generate(sequence, 2) == expected_tokens(list(prompt.tokens)[:161], 2, vocab_tokens=VOCAB)


def test_an_input_point_can_be_given_up_when_slots_are_few() -> None:
    """[F3] saving and execution cannot both be had: the optional point is consumed."""
    driver = new_driver(slots=1)
    bound = bound_of(driver.start(make_prompt(PROMPT)))
    driver.prefill(bound.sequence, 150)
    end = driver.program.freeze_end(bound.sequence)
    found = must_quote(driver, make_prompt([*PROMPT, 1]), end)
    assert (found.hand_over, found.need) == (HandOver.MOVE, ZERO)
    driver = new_driver(slots=2)
    _, point, _ = first_turn(driver)
    prompt = make_prompt([*PROMPT[:140], 3])
    assert must_quote(driver, prompt, point).hand_over is HandOver.FORK
    given_up = must_quote(driver, prompt, point, gives_up=True)
    assert (given_up.hand_over, given_up.carried) == (HandOver.MOVE, ())
    assert point in bound_of(driver.program.bind(given_up, prompt, LaneId(0))).consumed


@pytest.mark.parametrize("takes_over", [True, False])
def test_an_exact_hit_draws_from_the_stored_hidden_row(takes_over: bool) -> None:
    """[D9] no forward pass; the first unit is the first decode, and the point stays for the next repeat."""
    driver = new_driver()
    bound = bound_of(driver.start(make_prompt(PROMPT)))
    point = driver.prefill(bound.sequence, 150, capture_at=150)
    driver.generate(bound.sequence, 2)
    driver.program.freeze_end(bound.sequence)
    fed = driver.device.fed_tokens
    again = bound_of(driver.start(make_prompt(PROMPT), point, takes_over=takes_over, first_unit_tokens=0))
    assert again.frontier == 150
    assert driver.draw(again.sequence, decode=False) == expected_tokens(PROMPT, 1, vocab_tokens=VOCAB)
    assert driver.device.fed_tokens == fed
    rest = driver.generate(again.sequence, 4, pending=True)
    assert rest == expected_tokens(PROMPT, 5, vocab_tokens=VOCAB)[1:]
    assert driver.program.point_frontier(point) == 150


def test_an_exact_hit_that_ends_at_once_keeps_its_state() -> None:
    """[D9] [F4] E shares the source's image when nothing was fed: one state, two uses."""
    driver = new_driver()
    bound = bound_of(driver.start(make_prompt(PROMPT)))
    point = driver.prefill(bound.sequence, 150, capture_at=150)
    driver.program.release(bound.sequence)
    again = bound_of(driver.start(make_prompt(PROMPT), point, takes_over=True, first_unit_tokens=0))
    before = driver.program.occupancy().free
    end = driver.program.freeze_end(again.sequence)
    assert driver.program.occupancy().free - before == Amounts(state=1), "its own slot was never written"
    assert driver.program.point_frontier(end) == 150
    driver.program.audit()


def test_a_quote_dies_with_the_next_change() -> None:
    """V-14"""
    driver = new_driver()
    prompt = make_prompt(PROMPT)
    stale = must_quote(driver, prompt, None)
    bound = bound_of(driver.start(make_prompt(PROMPT)))
    with pytest.raises(AssertionError, match="V-14"):
        driver.program.bind(stale, prompt, LaneId(1))
    driver.program.release(bound.sequence)


def test_asking_changes_nothing() -> None:
    """[G4] assessment is read-only."""
    driver = new_driver()
    end, point, output = first_turn(driver)
    prompt = make_prompt([*PROMPT, *output, 1])
    first = must_quote(driver, prompt, end)
    for candidate in (point, None, end):
        must_quote(driver, prompt, candidate, takes_over=False)
    driver.program.list_delete_actions(Pool.STATE)
    assert must_quote(driver, prompt, end) == first


def test_a_resume_holds_its_full_permit_across_replay_chunks() -> None:
    """[A4] pages for the rebuild and the first new unit are taken at once and stay reserved until new work."""
    driver = new_driver(pages=4)
    ledger = IntBuffer([*PROMPT, 5, 6])
    prompt = Prompt(ledger, 151, b"sim")
    bound = bound_of(driver.start(prompt, first_unit_tokens=152))
    assert driver.program.occupancy().reserved == Amounts(state=1, main_kv=3)
    driver.prefill(bound.sequence, 60, replay=True)
    assert driver.program.occupancy().reserved == Amounts(main_kv=2)
    driver.prefill(bound.sequence, 91, replay=True)
    drawn = driver.generate(bound.sequence, 2, pending=True)
    assert drawn == expected_tokens([*PROMPT, 5, 6], 2, vocab_tokens=VOCAB)


def test_an_ordinary_unit_returns_what_it_did_not_use() -> None:
    """[A4] V-04: the remainder of a permit is free at once."""
    driver = new_driver(pages=6)
    bound = bound_of(driver.start(make_prompt(PROMPT), first_unit_tokens=150))
    assert driver.program.occupancy().free == Amounts(state=5, main_kv=3)
    driver.prefill(bound.sequence, 10)
    assert driver.program.occupancy().free == Amounts(state=5, main_kv=5)
    assert driver.program.occupancy().reserved == ZERO


def test_a_sequence_that_ends_before_the_first_poll_is_not_reported() -> None:
    """V-13: an ended handle appears nowhere, not even for its own bind."""
    driver = new_driver()
    bound = bound_of(driver.start(make_prompt(PROMPT)))
    point = driver.prefill(bound.sequence, 150, capture_at=150)
    driver.program.release(bound.sequence)
    prompt = make_prompt(PROMPT)
    again = bound_of(driver.program.bind(must_quote(driver, prompt, point, first=0), prompt, LaneId(0)))
    driver.program.freeze_end(again.sequence)
    assert driver.program.poll() == []


def test_a_point_beyond_the_allowed_frontier_serves_no_resume() -> None:
    """[G1] a resume starts at most where it was paused, though its ledger reaches further."""
    driver = new_driver()
    end, point, output = first_turn(driver)
    resume = Prompt(IntBuffer([*PROMPT, *output]), 155, b"sim")
    assert quote(driver, resume, end) is None
    assert quote(driver, resume, point) is not None
