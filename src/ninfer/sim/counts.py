"""What a world has seen: figures that show whether a simulation was idle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Totals of one world, or of several.

    `reclaims`: times points ended to make room. `snapshots`, `replays`: pauses of each kind. `trims`: histories that
    go on and lose pages behind their deepest point. `early_starts`: first chunks behind a restore under way.
    `batches`: demotions of several page groups in one transaction. `controls`: tokens that nobody drew. `normalized`:
    lanes that fed what a longer run had left before their snapshot. `late`: submissions that did not land at the first
    poll, `overtaking`: what landed before something older. `refusals`: planted, wherever something optional is
    allocated. `faults`: refusals, failed transfers and device failures together.
    """

    cycles: int = 0
    requests: int = 0
    reclaims: int = 0
    pauses: int = 0
    snapshots: int = 0
    replays: int = 0
    revoked: int = 0
    forks: int = 0
    moves: int = 0
    trims: int = 0
    tail_copies: int = 0
    restores: int = 0
    early_starts: int = 0
    exact_hits: int = 0
    sources_kept: int = 0
    leads_followed: int = 0
    keeps_revoked: int = 0
    captures: int = 0
    captures_refused: int = 0
    host_captures: int = 0
    demotions: int = 0
    batches: int = 0
    write_backs: int = 0
    long_runs: int = 0
    launches_ahead: int = 0
    controls: int = 0
    normalized: int = 0
    cancels: int = 0
    timeouts: int = 0
    late: int = 0
    overtaking: int = 0
    refusals: int = 0
    failed_transfers: int = 0
    device_failures: int = 0
    faults: int = 0

    def add(self, other: Counts) -> None:
        """Sum up worlds."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def close(self, *, late: int, overtaking: int) -> None:
        """The world is over: what the device counted, and the sums."""
        self.late, self.overtaking = late, overtaking
        self.replays = self.pauses - self.snapshots
        self.faults = self.refusals + self.failed_transfers + self.device_failures

    def line(self) -> str:
        """One line of text."""
        return " ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
