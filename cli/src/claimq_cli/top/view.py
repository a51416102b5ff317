"""What `claimq top` shows, and how keys change it. No input, no output, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from claimq.model import Located, Snapshot, State, WorkerInfo
from claimq_admin.name_order import in_order
from claimq_admin.reads.queue_reads import has_problem
from claimq_admin.reads.recent_snapshots import RecentSnapshots
from claimq_admin.text import workers_text

RATE_SECONDS = 10.0
"""Rates are averages over this time, by the server's clock."""


@dataclass(slots=True)
class QueueRow:
    """A queue as it was last read, with its live workers. ``problem`` is set if its server does not answer."""

    name: str
    snapshot: Snapshot | None = None
    workers: Sequence[WorkerInfo] = ()
    problem: str = ""
    _recent: RecentSnapshots = field(default_factory=lambda: RecentSnapshots(RATE_SECONDS))

    def see(self, snapshot: Snapshot, workers: Sequence[WorkerInfo] = ()) -> None:
        """Records a reading. After a loss of the server's data the rates start over."""
        self.snapshot, self.workers, self.problem = snapshot, workers, ""
        self._recent.add(snapshot)

    def rate(self, counter: str) -> float:
        """How much a counter grew per second; 0 before the second reading."""
        return self._recent.rate(counter)

    def length(self, state: State) -> int:
        """Items in a state; 0 if unknown."""
        return self.snapshot.lengths[state] if self.snapshot else 0

    @property
    def workers_text(self) -> str:
        """How many workers are live, and how many of them hold claims."""
        return workers_text(self.workers)

    @property
    def oldest(self) -> float:
        """Age of the oldest item in main, in seconds; 0 without one."""
        return (self.snapshot.ages[State.MAIN] or 0.0) if self.snapshot else 0.0

    @property
    def has_problem(self) -> bool:
        """Whether the list begins with this queue and its like."""
        return bool(self.problem) or (self.snapshot is not None and has_problem(self.snapshot))


SORTS: Mapping[str, Callable[[QueueRow], float]] = {
    "problems": lambda row: row.has_problem,
    "main": lambda row: row.length(State.MAIN),
    "oldest": lambda row: row.oldest,
    "busy": lambda row: row.length(State.BUSY),
    "failed": lambda row: row.length(State.FAILED),
    "done/s": lambda row: row.rate("done"),
    "queue": lambda _: 0.0,
}
"""The orders: problems first, or by a column, largest value first; equal ones by name."""


@dataclass(slots=True)
class View:
    """The rows, and what the user has chosen. ``opened``: the queue that is shown with its busy items and
    the reasons of its failures, if any."""

    rows: dict[str, QueueRow] = field(default_factory=dict[str, QueueRow])
    sort: str = "problems"
    filter: str = ""
    is_typing: bool = False
    selected: str = ""
    opened: str = ""
    claims: Sequence[Located] = ()
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    note: str = ""
    is_ended: bool = False
    command: str = "claimq"
    """How the user's own commands begin."""

    def shown(self) -> list[QueueRow]:
        """The rows that pass the filter, sorted."""
        rows = [row for row in self.rows.values() if self.filter.casefold() in row.name.casefold()]
        key_of = SORTS[self.sort]
        return sorted(rows, key=lambda row: (-key_of(row), in_order(row.name)))

    def press(self, key: str) -> None:
        """Handles a key: a character, or ``up``, ``down``, ``enter``, ``escape``, ``backspace``."""
        if self.is_typing:
            self._type(key)
        elif key == "q":
            self.is_ended = True
        elif self.opened:
            if key in {"escape", "backspace"}:
                self.opened, self.claims = "", ()
        else:
            self._press_in_list(key)

    def _press_in_list(self, key: str) -> None:
        if key in {"up", "k"}:
            self._select(-1)
        elif key in {"down", "j"}:
            self._select(1)
        elif key == "enter":
            names = [row.name for row in self.shown()]
            self.opened = self.selected if self.selected in names else (names[0] if names else "")
        elif key == "s":
            names = list(SORTS)
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
        elif key == "/":
            self.is_typing = True
        elif key == "escape":
            self.filter = ""

    def _type(self, key: str) -> None:
        if key == "enter":
            self.is_typing = False
        elif key == "escape":
            self.is_typing, self.filter = False, ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _select(self, step: int) -> None:
        names = [row.name for row in self.shown()]
        if names:
            place = names.index(self.selected) + step if self.selected in names else 0
            self.selected = names[max(0, min(place, len(names) - 1))]


_SEQUENCES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace", b"\x1b": "escape",
}  # fmt: skip


def keys_in(typed: bytes) -> list[str]:
    """The keys in what a terminal sent at once. Unknown sequences are left out."""
    keys: list[str] = []
    while typed:
        sequence = next(
            (
                candidate
                for candidate in sorted(_SEQUENCES, key=len, reverse=True)
                if typed.startswith(candidate)
            ),
            b"",
        )
        if sequence == b"\x1b" and typed[1:2] in {b"[", b"O"}:  # an unknown sequence
            break
        if sequence:
            keys.append(_SEQUENCES[sequence])
            typed = typed[len(sequence) :]
        else:
            text = typed.decode(errors="ignore")
            keys += text[:1]
            typed = text[1:].encode()
    return keys
