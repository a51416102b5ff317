"""What `claimq doctor` finds: checks with a state, a message and a fix. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from claimq_admin.errors import text_of

_FORBIDDEN = "(Forbidden)"


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """What one check has found. ``fix`` is a command or a setting; empty if there is nothing to do. ``stuck``: the
    queue that stands still, if that was found."""

    check: str
    state: CheckState
    message: str
    fix: str = ""
    stuck: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """The check as a part of the JSON document."""
        return {
            "check": self.check,
            "state": self.state.value,
            "message": self.message,
            "fix": self.fix or None,
        }

    @property
    def lines(self) -> list[str]:
        """The check for people: a line, and one with the fix."""
        lines = [f"{self.state.value:<9}{self.check}: {self.message}"]
        return [*lines, f"{'':<9}fix: {self.fix}"] if self.fix else lines


@dataclass(frozen=True, slots=True)
class Commands:
    """The beginnings of the command lines in fixes, with the user's options. ``kubectl`` is empty without a cluster.
    ``has_scaling``: whether a local mode runs the workers."""

    claimq: str = "claimq"
    kubectl: str = ""
    has_scaling: bool = False


def ok(check: str, message: str) -> Check:
    """A check that found nothing to do."""
    return Check(check, CheckState.OK, message)


def warning(check: str, message: str, fix: str) -> Check:
    """A check that found something that does not stop queues now, or that could not be made."""
    return Check(check, CheckState.WARNING, message, fix)


def problem(check: str, message: str, fix: str) -> Check:
    """A check that found why a queue does not work."""
    return Check(check, CheckState.PROBLEM, message, fix)


def stands_still(
    check: str, queue: str, sentence: str, make: Callable[[str, str, str], Check] = problem
) -> Check:
    """A check for which a queue, or an item of the queue, makes no progress. ``sentence``: the message, and after a
    semicolon the fix."""
    message, _, fix = sentence.partition("; ")
    return replace(make(check, message, fix), stuck=queue)


def not_checked(check: str, error: Exception, fix: str) -> Check:
    """A check that could not be made."""
    return warning(check, f"could not be checked: {text_of(error)}", fix)


def failed(check: str, error: Exception, fix: str) -> Check:
    """A check whose error is the problem, unless the user of kubectl only lacks a permission."""
    text = text_of(error)
    if _FORBIDDEN in text:
        return not_checked(check, error, "ask for the permission that the message names")
    return problem(check, text, fix)


def each_queue_once(checks: Sequence[Check]) -> list[Check]:
    """The checks; of those that found that the same queue stands still, only the last one."""
    last = {check.stuck: check for check in checks if check.stuck}
    return [check for check in checks if not check.stuck or last[check.stuck] is check]


def has_problem(checks: Iterable[Check]) -> bool:
    """Whether any check found a problem."""
    return any(check.state is CheckState.PROBLEM for check in checks)
