"""What a handler raises to give its item another verdict than *done*, and what logs say of an attempt."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar

from claimq import arguments
from claimq.arguments import Duration, optional_seconds, seconds
from claimq.model import Outcome, Verdict

_TASK = re.compile(rb'\s*\{\s*"task"\s*:\s*"([ !#-\[\]-~]{1,100})"')


class Fail(Exception):
    """Raised by a handler: this attempt failed, with a reason of the handler's own instead of an exception's text.

    ``permanent``: no further attempt makes sense; straight to failed. ``delay``: seconds until the next attempt, if
    there is one, instead of the policy's. ``detail`` (its last 2,000 characters) is kept as the item's error detail,
    for instance the end of a program's output. It is logged with the exception that it was raised ``from``, if any.
    """

    def __init__(
        self, error: str, *, permanent: bool = False, detail: str = "", delay: Duration | None = None
    ) -> None:
        super().__init__(arguments.text("error", error))
        self.error = error
        self.permanent = permanent
        self.detail = arguments.text("detail", detail)
        self.delay = optional_seconds("delay", delay)


class Closing(StrEnum):
    """What the verdict ``later`` closes until its delay is over: no item of it is claimed, and no slot is held."""

    QUEUE = "queue"
    CLIENT = "client"
    KEY = "key"


class NotNow(Exception):
    """Raised by a handler: :class:`Requeue` or :class:`Later`. It is no failure: nothing is logged, and
    ``die_on_error`` does not end the run."""

    verb: ClassVar[str]
    delay: float | None
    close: Closing | None = None


class Requeue(NotNow):
    """Raised by a handler: not now. The item goes to the tail of main, or to delayed for ``delay`` seconds, and counts
    towards the requeue limit. It is no failure: nothing is logged, and ``die_on_error`` does not end the run."""

    verb = "requeue"

    def __init__(self, *, delay: Duration | None = None) -> None:
        super().__init__("the handler requeued the item")
        self.delay = optional_seconds("delay", delay)


class Later(NotNow):
    """Raised by a handler: not now, for a reason that is not the item's, such as a service that is away. The item is
    delayed for ``delay`` seconds; neither an attempt nor a failure is counted. After ``max_postponed`` times (of the
    queue's policy), or at its deadline, it goes to failed. Nothing is logged.

    ``close="queue"``: no worker claims anything from the queue until then, at most for a day. ``"client"``, ``"key"``:
    nothing of the item's client, or of its key."""

    verb = "later"

    def __init__(self, delay: Duration, *, close: Closing | str | None = None) -> None:
        super().__init__("the handler postponed the item")
        self.delay = seconds("delay", delay)
        self.close = None if close is None else arguments.choice("close", close, Closing)


def closes(error: BaseException | None) -> bool:
    """Whether what a handler raised closes its queue."""
    return isinstance(error, NotNow) and error.close is not None


def attempt_at(item: Any) -> str:
    """An item of consume or of a sidecar in a log: its id, the task that it calls, if it does, and the attempt."""
    task = _TASK.match(item.payload[:200])
    name = f"{task[1].decode()}, " if task else ""
    return f"{item.id} ({name}attempt {item.requeue_count + 1})"


def next_attempt(outcome: Outcome) -> str:
    """What a log says after a failed attempt; empty if the claim was lost."""
    after = {
        Verdict.DELAYED: f"the next attempt is in {outcome.delay or 0:,.3g} s",
        Verdict.REQUEUED: "the next attempt is when its turn comes",
        Verdict.FAILED: "no further attempt: it is in failed",
        Verdict.DROPPED: "no further attempt: it is removed",
    }
    return after.get(outcome.earlier or outcome.verdict, "")
