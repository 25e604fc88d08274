"""The transition table of the context transaction, drawn into the documents, and every step of it [L1-L3]."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninfer.base.ids import TransferId
from ninfer.ports.transactions import TransactionKind
from ninfer.program.transaction import FINAL_STEPS, TRANSITIONS, ContextTransaction, Event, Step, Transactions

PAGE = Path(__file__).resolve().parents[3] / "docs" / "design" / "transaction.md"
MARK = "<!-- drawn from program/transaction.py -->\n"
KINDS = list(TransactionKind)


def draw_table() -> str:
    """One Markdown table a kind: rows are steps, columns events, cells the next step."""
    text = ""
    for kind, edges in TRANSITIONS.items():
        events = [event for event in Event if any(event in row for row in edges.values())]
        text += f"\n### {kind.value}\n\n| step | {' | '.join(event.value for event in events)} |\n"
        text += "|---" * (len(events) + 1) + "|\n"
        for step, row in edges.items():
            cells = (row[event].value if event in row else "" for event in events)
            text += f"| {step.value} | {' | '.join(cells)} |\n"
    return text


def test_the_page_shows_the_table_as_it_is() -> None:
    """On a difference the wanted text is in the failure: put it below the mark."""
    head, mark, drawn = PAGE.read_text().partition(MARK)
    assert mark, "the page has lost its mark"
    assert drawn == draw_table(), draw_table()
    assert all(step.value in head for step in Step), "each step is explained above the tables"


def walk(kind: TransactionKind, step: Step) -> ContextTransaction:
    """A transaction that has come to `step` by the table."""
    paths: dict[Step, list[Event]] = {Step.RESERVED: []}
    for _ in Step:
        for at, path in list(paths.items()):
            for event, to in TRANSITIONS[kind].get(at, {}).items():
                paths.setdefault(to, [*path, event])
    transaction = ContextTransaction(kind)
    for event in paths[step]:
        transaction.advance(event)
    assert transaction.step is step
    return transaction


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_reached_and_has_a_way_out(kind: TransactionKind) -> None:
    """[L2]: nothing hangs; a final step knows no event."""
    reached = {Step.RESERVED} | {to for row in TRANSITIONS[kind].values() for to in row.values()}
    for step in reached:
        walk(kind, step)
        assert (step in FINAL_STEPS) == (not TRANSITIONS[kind].get(step))


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_table_does_not_know_is_refused(kind: TransactionKind) -> None:
    """[L2]"""
    for step in {Step.RESERVED} | {to for row in TRANSITIONS[kind].values() for to in row.values()}:
        for event in Event:
            transaction = walk(kind, step)
            if event in TRANSITIONS[kind].get(step, {}):
                transaction.advance(event)
                continue
            with pytest.raises(AssertionError, match="L2"):
                transaction.advance(event)


@pytest.mark.parametrize("kind", [TransactionKind.BIND, TransactionKind.PAUSE])
def test_behind_the_hand_over_there_is_no_way_back(kind: TransactionKind) -> None:
    """[L3]: before it a cancel undoes everything; after it neither cancel nor failure does."""
    assert TRANSITIONS[kind][Step.RESERVED][Event.CANCEL] is Step.UNDONE
    behind = {Step.ADOPTED, Step.COPYING, Step.DRAINING}
    assert all(to is not Step.UNDONE for step in behind for to in TRANSITIONS[kind][step].values())


@pytest.mark.parametrize("kind", [TransactionKind.CAPTURE, TransactionKind.DEMOTION])
def test_an_optional_transaction_can_always_be_undone(kind: TransactionKind) -> None:
    """[L3], settled decision 12"""
    assert Step.FAILED not in {to for row in TRANSITIONS[kind].values() for to in row.values()}


def begin(transactions: Transactions, kind: TransactionKind) -> ContextTransaction:
    transaction = transactions.open(kind)
    if Event.ADOPT in TRANSITIONS[kind][Step.RESERVED]:
        transaction.advance(Event.ADOPT)
    transaction.advance(Event.SUBMIT)
    transaction.transfers |= {TransferId(1), TransferId(2)}
    return transaction


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("cancels", [True, False])
def test_it_ends_with_its_last_transfer(kind: TransactionKind, fails: bool, cancels: bool) -> None:
    """[V-07]: one is open; a cancelled one drains beside the next and reports nothing."""
    transactions = Transactions()
    transaction = begin(transactions, kind)
    with pytest.raises(AssertionError, match="V-07"):
        transactions.open(TransactionKind.DEMOTION)
    if cancels:
        transactions.cancel(transaction)
        begin(transactions, TransactionKind.DEMOTION)
    transactions.audit()
    assert not transactions.land(transaction, TransferId(2), failed=fails)
    assert transactions.land(transaction, TransferId(1), failed=False)
    transactions.settle(transaction)
    wanted = Step.FAILED if fails else Step.DONE
    if TRANSITIONS[kind][Step.COPYING][Event.FAIL] is Step.UNDONE and (fails or cancels):
        wanted = Step.UNDONE
    assert transaction.step is wanted
    told = not cancels and (fails or kind is not TransactionKind.BIND)
    assert [end.failed for end in transactions.collect_ends()] == [fails] * told
    assert transactions.collect_ends() == []
    assert (transactions.current is not None) == cancels
