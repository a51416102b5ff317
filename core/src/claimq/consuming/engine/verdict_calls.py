"""The call of the library for each verb of a verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from claimq.consuming.engine.endings import AnyClaim, Ending
from claimq.model import Outcome
from claimq.queue.settling import Done, Settling

Work = Callable[[Settling], Awaitable[list[Outcome]]]


def call_of(verb: str, *endings: Ending[AnyClaim]) -> Work:
    """The call that ends claims with a verb. Several endings: only for "done", in one step."""
    ending = endings[0]
    claims, error, detail, delay = ending.claims, ending.error, ending.detail, ending.delay
    match verb:
        case "done" if any(each.enqueue for each in endings):
            pairs = [Done(claim, one.enqueue) for one in endings for claim in one.claims]
            return lambda queue: queue.done(pairs)
        case "done":
            every = [claim for one in endings for claim in one.claims]
            return lambda queue: queue.done(every)
        case "fail":
            return lambda queue: queue.fail(
                claims, error, permanent=ending.permanent, detail=detail, delay=delay
            )
        case "requeue":
            return lambda queue: queue.requeue(claims, delay=delay, error=error, detail=detail)
        case "later":
            close = ending.close
            return lambda queue: queue.later(claims, delay or 0.0, close=close, error=error, detail=detail)
        case "drop":
            return lambda queue: queue.drop(claims, error)
        case "crash":
            return lambda queue: queue.crash(claims, error)
        case _:
            return lambda queue: queue.unclaim(claims, why=error)
