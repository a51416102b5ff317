"""What a user may do on the page."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from claimq_web.users.login import Session


class Right(Enum):
    """What a request needs on a queue."""

    LOOK = "see its numbers"
    READ = "read its items"
    CHANGE = "change its items, pause and resume it"
    SUSPEND = "suspend it"
    DRAIN = "drain its workers"
    ADD = "add items to it"
    CONFIGURE = "change its policy"


class Access(Protocol):
    """Decides what users may do."""

    async def may(self, session: Session | None, right: Right, name: str) -> bool:
        """Whether the user of the session has this right on the queue."""
        ...

    async def visible(self, session: Session | None, names: Sequence[str]) -> set[str]:
        """The queues among these whose numbers the user may see."""
        ...


class SameForAll:
    """Everyone who can open the page has the same rights on all queues."""

    def __init__(self, *, may_act: bool, has_workers: bool = False) -> None:
        """``may_act``: users who have logged in may change items; and, where this process runs the workers
        (``has_workers``), suspend queues and drain workers."""
        self._may_act = may_act
        self._has_workers = has_workers

    async def may(self, session: Session | None, right: Right, name: str) -> bool:  # noqa: ARG002 - as the protocol has it
        """Whether the user of the session has this right."""
        match right:
            case Right.LOOK | Right.READ:
                return True
            case Right.CHANGE | Right.ADD | Right.CONFIGURE:
                return self._may_act and session is not None
            case Right.SUSPEND | Right.DRAIN:
                return self._may_act and self._has_workers and session is not None

    async def visible(self, session: Session | None, names: Sequence[str]) -> set[str]:  # noqa: ARG002 - likewise
        """All of them."""
        return set(names)
