"""The report on a server, with what its queues ask for and it refuses."""

from __future__ import annotations

from dataclasses import replace

import claimq
from claimq.errors import ClaimqError, RightMissing, StoreFull, StoreMisused, StoreUnavailable
from claimq.internals.fsync_setting import with_refused
from claimq.internals.operations import internals
from claimq.model import ServerReport, ServerWarning

_MOST_QUEUES = 100
"""Most queues of the server's index whose policies are compared with the server."""


async def server_report(server: claimq.Server, *, tries_scripts: bool = False) -> ServerReport:
    """The report, also with a warning for each listed queue whose ``durability`` the server refuses.

    A user who may not read the index or a policy gets no such warning. ``tries_scripts``: first among the warnings is
    the one for a server that cannot run scripts, if it cannot. Raises as :meth:`claimq.Server.report`.
    """
    report = await server.report()
    try:
        names = await server.queues(only_existing=False)
    except ClaimqError:
        names = []
    report = await _with_policies(report, server, names[:_MOST_QUEUES])
    if tries_scripts:
        warnings = await _script_warnings(server, next(iter(names), "report"))
        report = replace(report, warnings=(*warnings, *report.warnings))
    return report


async def _with_policies(report: ServerReport, server: claimq.Server, names: list[str]) -> ServerReport:
    changed = report
    try:
        for name in names:
            policy = await server.queue(name).policy()
            always = policy.appendfsync_always
            changed = with_refused(changed, policy.durability, is_always=always, queue=f"queue {name}")
    except ClaimqError:
        return changed
    return changed


async def _script_warnings(server: claimq.Server, name: str) -> list[ServerWarning]:
    """The warning for a server that cannot run scripts, if it cannot. The trial writes nothing, and runs on the queue
    ``name``. A user who lacks rights to that queue gets no warning."""
    try:
        await internals(server.queue(name)).try_scripts()
    except StoreFull:
        return []  # which has a warning of its own
    except StoreUnavailable as error:
        return [ServerWarning("WritesRefused", str(error))]
    except RightMissing:
        return []
    except StoreMisused as error:
        return [ServerWarning("ScriptsRefused", str(error))]
    return []
