"""Program with a host arena: the random binds, chunks and ends of `ProgramMachine`, with demotions, write-backs,
snapshots, revocations, cancels and transfers that fail between them.

The device compares every block that comes back from the host, every token is the closed form's (V-15), and the recount
includes the host (V-02).

The recount after every step compares what is offered with a listing from nothing ([I2]).
"""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from machine_profile import machine_settings
from test_history_machine import own
from test_program_machine import DICE, VOCAB, ProgramMachine

from ninfer.base.ids import Handle
from ninfer.base.outcome import Shortfall
from ninfer.base.pools import Amounts, Pool
from ninfer.ports.native import CaptureRequest, DemoteAction, PointKind, Prompt
from ninfer.ports.transactions import TransactionKind
from ninfer.program.program import Program
from ninfer.sim.device import SimDevice, SimFaults
from ninfer.store.directory import KvDirectory

IMAGE = 1024 * 1024
POOLS = (Pool.STATE, Pool.MAIN_KV, Pool.MTP_KV)


class HostMachine(ProgramMachine):
    @initialize(
        slots=st.integers(3, 8),
        pages=st.integers(10, 40),
        late=st.integers(0, 4),
        seed=st.integers(0, 999),
        images=st.sampled_from((0, 4, 12, 20)),
        failures=st.sampled_from((0.0, 0.5)),
    )
    def begin(self, slots: int, pages: int, late: int, seed: int, images: int, failures: float) -> None:  # type: ignore[override]
        self.device = SimDevice(
            slots=slots,
            pages={Pool.MAIN_KV: pages, Pool.MTP_KV: pages},
            vocab_tokens=VOCAB,
            faults=SimFaults(seed, late, host_failures=failures),
            check_every=3,
            longest_run=1 + 3 * (seed % 2),
            run_ahead_slots=seed % 4,
            host_bytes=images * IMAGE + 5 * 64 * 1024,
        )
        self.program = Program(self.device, self.device)
        self.requests = {}
        self.histories = []
        self.paused = []
        self.ledgers = {}
        self.gone = set()
        self.capturing: Handle | None = None
        self.snapshots: dict[Handle, tuple[Prompt, int]] = {}

    def forget(self, point: Handle) -> None:
        super().forget(point)
        self.snapshots.pop(point, None)

    def poll(self, dice: Random) -> None:
        super().poll(dice)
        for end in self.program.collect_ends():
            assert end.failed <= (self.device._faults.host_failures > 0)
            if end.kind is TransactionKind.CAPTURE:
                (request,) = [r for r in self.requests.values() if not r.is_ready and r.sequence == self.capturing]
                request.is_ready = True
                self.capturing = None
                if end.subject is not None:
                    self.add_point(request, end.subject, request.frontier, PointKind.INPUT_POINT)
            if end.kind is TransactionKind.BIND:
                assert end.failed
                (lane,) = [lane for lane, request in self.requests.items() if request.sequence == end.subject]
                self.unseat(lane)
                self.program.release(end.subject)
            if end.failed:
                assert end.freed == Amounts()

    def settle(self, dice: Random) -> None:
        """Time passes until nothing is under way."""
        for _ in range(30):
            if not self.program.transaction_open:
                return
            if dice.random() < 0.1:
                self.cancel(dice)
            self.poll(dice)
        raise AssertionError("L2: a transaction never ends")

    @precondition(lambda self: self.points())
    @rule(dice=DICE, rounds=st.integers(1, 4))
    def carry_on(self, dice: Random, rounds: int) -> None:
        """One history again and again: saved or moved to the host, written on, ended."""
        for _ in range(rounds):
            self.settle(dice)
            quiet = [p for p, history in self.points() if not history.is_written and not self.is_snapshot(p)]
            if not quiet:
                return
            point = quiet[-1]
            for pool in dice.sample(POOLS, 3):
                self.demote(dice, pool, keeps=dice.random() < 0.6, point=point)
                self.settle(dice)
            if point not in self.ledgers:
                return
            tokens = list(self.ledgers[point])
            at, more = len(tokens), dice.choice((1, 5, 30))
            self.bind(self.make_prompt(tokens + [(7 * i + at) % VOCAB for i in range(more)], at, dice), point, dice)
            self.work(dice, 6)
            self.freeze(dice)

    @precondition(lambda self: hasattr(self, "program"))
    @rule(dice=DICE, days=st.integers(5, 60))
    def live(self, dice: Random, days: int) -> None:
        """A stretch of everything, evenly mixed."""
        for _ in range(days):
            match dice.randrange(12):
                case 0 if len(self.points()) < 4:
                    self.bind_root(dice)
                case 1 if self.points():
                    self.bind_point(dice)
                case 2 | 3 | 4 if self.requests:
                    self.work(dice, dice.randint(1, 8))
                case 5 | 6 if self.points():
                    self.demote_several(dice, dice.choices(POOLS, k=dice.randint(1, 6)), dice.random() < 0.3)
                case 7 if self.points() and self.free_lane() is not None:
                    self.bring_back(dice, dice.choice((0, 1, 40, 100)))
                case 8 if self.requests and not self.program.transaction_open:
                    self.pause(dice)
                case 9 if self.snapshots and self.free_lane() is not None:
                    self.wake(dice)
                case 10 if self.requests and not self.program.transaction_open:
                    self.capture(dice)
                case 11 if self.points():
                    self.carry_on(dice, 2)
                case _:
                    self.wait(dice, dice.randint(1, 6))
            self.program_equals_model()

    @rule(dice=DICE, polls=st.integers(1, 6))
    def wait(self, dice: Random, polls: int) -> None:
        for _ in range(polls):
            self.poll(dice)

    @precondition(lambda self: self.points())
    @rule(dice=DICE, pools=st.lists(st.sampled_from(POOLS), min_size=1, max_size=6), keeps=st.booleans())
    def demote_several(self, dice: Random, pools: list[Pool], keeps: bool) -> None:
        """The last of them may be left on its way."""
        for pool in pools:
            self.settle(dice)
            self.demote(dice, pool, keeps=keeps)

    @precondition(lambda self: self.free_lane() is not None)
    @rule(dice=DICE, more=st.sampled_from((0, 1, 40, 100)))
    def bring_back(self, dice: Random, more: int) -> None:
        """A request goes on from a point of which something is on the host alone."""
        stores = self.program._stores
        away = []
        for point, _ in self.points():
            checkpoint = stores.checkpoints[point]
            tables = checkpoint.directory.tables.values()
            if checkpoint.image is not None or any(table.host_pages for table in tables):
                away.append(point)
        if not away or self.program.transaction_open:
            return
        point = dice.choice(away)
        tokens = list(self.ledgers[point])
        at = len(tokens)
        tokens += [(more + 3 * i) % VOCAB for i in range(more)]
        self.bind(self.make_prompt(tokens, at, dice), point, dice)

    def demote(self, dice: Random, pool: Pool, *, keeps: bool, point: Handle | None = None) -> None:
        """V-04, I6: what leaves at once and what comes later is what the action names, or a part of its pages."""
        if self.program.transaction_open:
            return
        actions = self.program.list_demote_actions(pool)
        if pool is not Pool.STATE:
            self.check_groups(pool, actions)
        actions = [action for action in actions if point is None or point in action.points]
        if not actions:
            return
        if pool is not Pool.STATE and not keeps and dice.random() < 0.5:
            self.demote_batch(dice, actions)
            return
        action = dice.choice(actions)
        held = {point for history in self.histories for point in history.points}
        assert set(action.points) <= held
        assert action.points
        before = self.program.occupancy()
        outcome = self.program.demote(action, most=dice.choice((None, 1, 3)), keeps_device=keeps)
        if isinstance(outcome, Shortfall):
            assert outcome.pool is Pool.HOST
            assert outcome.gap > 0
            assert self.program.occupancy() == before
            return
        assert self.program.occupancy().free[pool] - before.free[pool] == outcome.freed[pool]
        assert 0 <= outcome.freed[pool] + outcome.coming[pool] <= action.frees[pool]
        assert self.program.transaction_open or not outcome.coming[pool]
        if action.moved_bytes == 0 and not keeps:
            assert not self.program.transaction_open
            assert outcome.freed[pool] > 0

    def demote_batch(self, dice: Random, actions: list[DemoteAction]) -> None:
        """I7: the pages of all groups in their order, cut at what is wanted and at what the host can place, and never
        with a hole; those with a replica leave at once, and without room nothing has changed (V-04)."""
        chosen = dice.sample(actions, dice.choice((dice.randint(1, len(actions)), len(actions))))
        pool, most, stores = chosen[0].pool, dice.choice((1, 5, 100, 100)), self.program._stores
        tables = [
            (stores.directories[action.pages.serial].tables[pool], action.pages) for action in chosen if action.pages
        ]
        places = [(table, index) for table, group in tables for index in range(group.stop - 1, group.first - 1, -1)]
        first = {table.entries[index]: (table, index) for table, index in reversed(places)}
        pages = list(dict.fromkeys(table.entries[index] for table, index in places))[:most]
        before = self.program.occupancy()
        outcome = self.program.demote_batch(chosen, most)
        if isinstance(outcome, Shortfall):
            assert outcome.pool is Pool.HOST
            assert self.program.occupancy() == before
            return
        assert self.program.occupancy().free[pool] - before.free[pool] == outcome.freed[pool]
        count = outcome.freed[pool] + outcome.coming[pool]
        assert 0 < count <= len(pages)
        current = self.program._transactions.current
        targets = stores.copies.list_targets(current.save) if current is not None and current.save is not None else ()
        coming = {target.cell for target in targets}
        gone = {page for page in pages if not first[page][0].shows(first[page][1], page)}
        assert coming | gone == set(pages[:count]), "I7: a batch with a hole"

    def owners_of(self, pool: Pool, page: int) -> list[KvDirectory]:
        """By search, not by count."""
        return [d for d in self.program._stores.directories if page in list(d.tables[pool].entries)]

    def check_groups(self, pool: Pool, actions: list[DemoteAction]) -> None:
        """I1: every page that nobody writes or reads stands in exactly one action, with every point that needs it."""
        directories = {directory.serial: directory for directory in self.program._stores.directories}
        listed: list[int] = []
        for action in actions:
            assert action.pages is not None
            pages = list(directories[action.pages.serial].tables[pool].entries)[action.pages.first : action.pages.stop]
            listed += pages
            assert action.frees[pool] == len(pages) > 0
            deep = action.pages.first * 64
            for page in pages:
                needing = [p for d in self.owners_of(pool, page) for at, p in d.list_holders() if own(pool, at) > deep]
                assert set(action.points) == set(needing)
        known = {page for d in directories.values() for page in d.tables[pool].entries if page > 0}
        readers = self.program._stores.pages[pool].readers
        quiet = [page for page in known if not any(d.has_writer for d in self.owners_of(pool, page))]
        assert sorted(listed) == sorted(page for page in quiet if not readers(page))

    @precondition(lambda self: self.requests and not self.program.transaction_open)
    @rule(dice=DICE)
    def pause(self, dice: Random) -> None:
        """K1, K2: the sequence is a snapshot at once, or nothing has changed."""
        ready = [lane for lane, request in self.requests.items() if request.is_ready and request.frontier > 0]
        if not ready:
            return
        lane = dice.choice(ready)
        request = self.requests[lane]
        before = self.program.occupancy()
        directory = self.program._sequences[request.sequence].directory
        spots = [(pool, page) for pool, table in directory.tables.items() for page in table.entries]
        unique = sum(len(self.owners_of(pool, page)) == 1 for pool, page in spots)
        snapshot = self.program.pause(request.sequence)
        if isinstance(snapshot, Shortfall):
            assert snapshot.pool is Pool.HOST
            assert self.program.occupancy() == before
            return
        charged = before.free.host - self.program.occupancy().free.host
        assert charged <= IMAGE + unique * 64 * 1024, "K2: something shared was copied"
        self.unseat(lane)
        self.add_point(request, snapshot, request.frontier, PointKind.SNAPSHOT)
        self.check_stale(request.sequence)
        old = request.prompt
        until = max(old.prompt_tokens, request.frontier)
        prompt = Prompt(old.tokens, until, b"sim", old.execution_frontiers)
        self.snapshots[snapshot] = prompt, request.replay_until

    @precondition(lambda self: self.requests and not self.program.transaction_open)
    @rule(dice=DICE)
    def capture(self, dice: Random) -> None:
        """E2: where the state stands at a frontier of the prompt, it can go to the host; the old point ends first."""
        for request in self.requests.values():
            prompt = request.prompt
            on_split = request.frontier in (*prompt.execution_frontiers, prompt.prompt_tokens)
            if not request.is_ready or not on_split or request.frontier > prompt.prompt_tokens:
                continue
            sequence = self.program._sequences[request.sequence]
            if sequence.read_slot != sequence.slot:
                continue
            old = [p for p, (_, kind) in request.history.points.items() if kind is PointKind.INPUT_POINT]
            asked = CaptureRequest(request.frontier, PointKind.INPUT_POINT)
            before = self.program.occupancy()
            outcome = self.program.capture_on_host(request.sequence, asked, old[0] if old else None)
            if isinstance(outcome, Shortfall):
                assert self.program.occupancy() == before
                continue
            if old:
                self.forget(old[0])
            request.is_ready = False
            self.capturing = request.sequence
            return

    @precondition(lambda self: self.snapshots and self.free_lane() is not None)
    @rule(dice=DICE)
    def wake(self, dice: Random) -> None:
        """K1: the request goes on from its own snapshot; while the copies are under way it waits."""
        self.settle(dice)
        if not self.snapshots:
            return
        snapshot = dice.choice(sorted(self.snapshots))
        prompt, replay_until = self.snapshots[snapshot]
        self.bind(prompt, snapshot, dice, replay_until)

    @precondition(lambda self: self.snapshots)
    @rule(dice=DICE)
    def revoke(self, dice: Random) -> None:
        """K3: in the middle of its copies or later; other points of the history stay."""
        if dice.random() < 0.5:
            return
        snapshot = dice.choice(sorted(self.snapshots))
        before = self.program.occupancy().free
        assert self.program.revoke_snapshot(snapshot) == self.program.occupancy().free - before
        self.forget(snapshot)

    @precondition(lambda self: hasattr(self, "program") and self.program.transaction_open)
    @rule(dice=DICE)
    def cancel(self, dice: Random) -> None:
        """L3: a demotion is given up on its way; what drains blocks nobody."""
        current = self.program._transactions.current
        if dice.random() < 0.5 and current is not None and current.kind is TransactionKind.DEMOTION:
            self.program.cancel_demotion()
            assert not self.program.transaction_open

    @precondition(lambda self: hasattr(self, "program") and self.points())
    @rule(dice=DICE)
    def delete_for_the_host(self, dice: Random) -> None:
        """I11: actions that free host bytes free exactly what they say."""
        actions = self.program.list_delete_actions(Pool.HOST)
        if not actions or dice.random() < 0.5:
            return
        action = dice.choice(actions)
        assert action.frees.host > 0
        assert self.program.delete(action) == action.frees
        for point in action.points:
            self.forget(point)


HostMachine.TestCase.settings = machine_settings(60, 25)
test_host = HostMachine.TestCase
