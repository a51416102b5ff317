"""What a handler raises to give its item another verdict than *done*."""

from __future__ import annotations

from claimq import arguments
from claimq.arguments import Duration, optional_seconds


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


class Requeue(Exception):
    """Raised by a handler: not now. The item goes to the tail of main, or to delayed for ``delay`` seconds, and counts
    towards the requeue limit. It is no failure: nothing is logged, and ``die_on_error`` does not end the run."""

    def __init__(self, *, delay: Duration | None = None) -> None:
        super().__init__("the handler requeued the item")
        self.delay = optional_seconds("delay", delay)
