"""The server's setting ``appendfsync`` in its report: as the server returned it, or as an administrator declares it."""

from __future__ import annotations

from dataclasses import replace

from claimq.model import ServerReport, ServerWarning

HIDDEN, REFUSED = "SettingsHidden", "FsyncedRefused"
_PROVING = (8, 2)
"""The first version of Redis whose WAITAOF waits for the fsync in every setting (tests/kill/test_fsynced.py)."""
_VALUES = ("always", "everysec", "no")
_UNKNOWN = ServerWarning(
    HIDDEN,
    "appendfsync is unknown, since the user may not read it: have an administrator run `claimq doctor`, and declare "
    "the value in spec.redis.appendfsync; it should be always",
)
_PAUSES = ServerWarning(
    "FsyncPauses",
    "no-appendfsync-on-rewrite is yes: a power loss during a rewrite of the append-only file can lose items; "
    "set it to no",
)


def fsync_warnings(appendfsync: str | None, *, pauses: bool = False) -> tuple[ServerWarning, ...]:
    """The warnings about these values; ``appendfsync``: None if it is unknown."""
    if appendfsync is None:
        return (_UNKNOWN,)
    return (*_of_value(appendfsync), *((_PAUSES,) if pauses else ()))


def with_declared(report: ServerReport, appendfsync: str | None) -> ServerReport:
    """The report with the value that an administrator declares (``always``, ``everysec`` or ``no``; None: none).

    It is used where the server does not show its own. A declaration that contradicts the server's own value is a
    warning.
    """
    if appendfsync is None or appendfsync == report.appendfsync:
        return report
    if report.appendfsync is None:
        other_warnings = tuple(warning for warning in report.warnings if warning.code != HIDDEN)
        return replace(
            report, appendfsync=appendfsync, warnings=(*other_warnings, *fsync_warnings(appendfsync))
        )
    text = (
        f"appendfsync is {_shown(report.appendfsync)} and spec.redis.appendfsync declares {appendfsync}; "
        "correct the declaration or the server"
    )
    return replace(report, warnings=(*report.warnings, ServerWarning("DeclarationWrong", text)))


def for_manifest(
    report: ServerReport, appendfsync: str | None, durability: str, *, is_always: bool
) -> ServerReport:
    """The report as a manifest's queue sees it: with what the manifest declares of the server, and with what the server
    refuses to the queue. The arguments are those of :func:`with_declared` and :func:`with_refused`."""
    return with_refused(with_declared(report, appendfsync), durability, is_always=is_always)


def with_refused(
    report: ServerReport, durability: str, *, is_always: bool, queue: str = "the queue"
) -> ServerReport:
    """The report with a warning if the server refuses the ``durability`` of a queue (lua/lib/call.lua).

    ``is_always``: whether the queue's policy declares ``appendfsync_always``.
    """
    numbers = tuple(int(part) for part in report.version.split(".")[:2] if part.isdigit())
    is_proof = is_always or (report.flavour == "redis" and numbers >= _PROVING)
    if durability != "fsynced" or is_proof:
        return report
    text = (
        f"durability fsynced of {queue} is refused, and nothing can be enqueued: {report.flavour} {report.version} can "
        "confirm WAITAOF before its fsync; set appendfsync always on all its servers and declare that "
        "(spec.redis.appendfsync, or appendfsync_always in the policy), or use durability replicated"
    )
    return replace(report, warnings=(*report.warnings, ServerWarning(REFUSED, text)))


def _of_value(appendfsync: str) -> tuple[ServerWarning, ...]:
    if appendfsync == "always":
        return ()
    lost = "a power loss can lose the last second or more"
    if appendfsync == "everysec":
        lost = (
            "a power loss can lose the last two seconds, and SIGKILL of the server too while its disk is slow"
        )
    text = f"appendfsync is {_shown(appendfsync)}: {lost}; set it to always"
    return (ServerWarning("FsyncNotAlways", text),)


def _shown(text: str) -> str:
    """Foreign text is not repeated."""
    return text if text in _VALUES else "of another value"
