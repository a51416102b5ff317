"""Decides what the exit of a block, a loop or the program means for an item in progress. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from claimq.handler_verdicts import Fail, Later, NotNow
from claimq.worker.item import ClaimedItem
from claimq.worker.wire import delay_fields, fail_fields, later_fields

_LONGEST_TEXT = 200
NO_VERDICT = (
    "the loop over items() went on before this item had a verdict; write `with item:` around the work"
)
"""The error of an item that the loop has forgotten."""


def exit_error(error: BaseException | None) -> str | None:
    """The error to keep for ``sys.exit`` with a code other than 0, and for a ``gevent.Timeout``. None for any other
    end: an interrupt, a cancellation, an exit without an error.
    """
    if type(error).__module__ == "gevent.timeout":
        return f"the work was ended by a gevent.Timeout: {str(error)[:_LONGEST_TEXT]}"
    if not isinstance(error, SystemExit) or error.code in (None, 0):
        return None
    return f"the program ended itself: SystemExit: {str(error.code)[:_LONGEST_TEXT]}"


def verdict_on(error: Exception) -> tuple[str, dict[str, object], BaseException | None]:
    """The verdict at the end of a block that raised an exception: verb, words, and the exception to log, if any."""
    if isinstance(error, NotNow):
        is_later = isinstance(error, Later)
        words = later_fields(error.delay, error.close) if is_later else delay_fields(error.delay)
        return error.verb, words, None
    return "fail", fail_fields(error), error.__cause__ if isinstance(error, Fail) else error


def counts_at_the_end(error: BaseException | None, *, is_over: bool) -> bool:
    """Whether an error of the program ends the worker's block, so that it counts for what is in progress.

    ``is_over``: the worker was asked to stop, so that an exit is not the fault of the items.
    """
    return isinstance(error, Exception) or (exit_error(error) is not None and not is_over)


def is_forgotten(item: ClaimedItem) -> bool:
    """Whether the loop went on although the item has no verdict and no block that will give it one."""
    return item.outcome is None and not (item.in_block or item.is_ending)


def message_if_forgotten(item: ClaimedItem, *, block: str) -> str:
    """The message of ItemNotSettled; ``block``: ``with item`` or ``async with item``."""
    return (
        f"the loop over items() asked for the next item before item {item.id} had a verdict, so it was failed and goes "
        f"back. Write `{block}:` around the work (done at its end, failed on an exception), or end each item "
        "with item.done() or item.fail(...) before the next one. If another thread or task ends the items, pass "
        "worker.items(settle_elsewhere=True)"
    )


def waits_for_itself(held: Sequence[ClaimedItem], *, block: str) -> str:
    """What to log when a claim got nothing while its own caller holds items."""
    shown = ", ".join(item.id for item in held[:5]) + (", ..." if len(held) > 5 else "")
    return (
        f"a claim got nothing, and its caller still holds {len(held)} without a verdict ({shown}): if these fill the "
        f"worker's concurrency, it waits for itself. End each with `{block}:`, item.done() or item.fail(...)"
    )
