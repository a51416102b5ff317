"""What an app gets from its sidecar and gives to it: items, outcomes, new items."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from claimq.worker.errors import PayloadError


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to enqueue, where a bare payload does not say enough.

    ``payload``: bytes as they are, text as UTF-8, a dict or list as JSON. ``id``: the app's own; the same id
    is not queued twice within the queue's id window, so such an enqueue may be repeated. ``delay``: seconds.
    """

    payload: object
    id: str | None = None
    client: str | None = None
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What an enqueue did: ids in call order, the length of main after it, and which ids were known already."""

    ids: tuple[str, ...]
    length: int
    duplicates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verdict did to one claim.

    ``verdict``: done, requeued, delayed, failed, unclaimed, renewed; ``lost``: the claim was not held any
    more and nothing has changed; ``already_done``: the same verdict had its effect before (``earlier`` says
    which). ``delay`` in seconds, ``lease_until`` an instant.
    """

    token: str
    verdict: str
    earlier: str | None = None
    delay: float | None = None
    lease_until: float | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the claim was not held any more: somebody else has the item, or will; forget the result."""
        return self.verdict == "lost"


@dataclass(slots=True, eq=False)
class ItemValues:
    """An item in the app's hands. Instants are Unix seconds by the store's clock.

    ``outcome``: what the last verdict did; None while there is none. ``lease_until`` is as of the claim or
    the last ``renew`` by the app itself: with a session the sidecar renews it in the background.
    """

    token: str
    id: str
    payload: bytes = field(repr=False)
    client: str | None
    requeue_count: int
    fail_count: int
    crash_count: int
    interrupted_count: int
    enqueued_at: float
    first_enqueued_at: float
    claimed_at: float
    lease_until: float
    outcome: Outcome | None = field(default=None, init=False)
    in_block: bool = field(default=False, init=False, repr=False)
    """Whether it is in a ``with`` block that gives it a verdict."""
    is_begun: bool = field(default=True, init=False, repr=False)
    """Whether the app was given it; false for what a loop has claimed ahead."""
    claimed_by: object = field(default=None, init=False, repr=False)
    """The thread or task that claimed it; None once its wait for itself has been logged."""

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises :class:`PayloadError` if it is not."""
        try:
            return self.payload.decode()
        except UnicodeDecodeError as error:
            raise PayloadError(
                f"the payload of item {self.id} is not UTF-8 text; read .payload (bytes)"
            ) from error

    def json(self) -> object:
        """The payload as the JSON value that it holds. Raises :class:`PayloadError` if it does not."""
        try:
            return json.loads(self.payload)
        except ValueError as error:
            begin = self.payload[:20]
            raise PayloadError(
                f"the payload of item {self.id} is not JSON (it begins {begin!r}); read .text or .payload"
            ) from error
