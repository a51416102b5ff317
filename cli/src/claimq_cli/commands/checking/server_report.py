"""The report on a server, with what its queues ask for and it refuses."""

from __future__ import annotations

import claimq
from claimq.errors import ClaimqError, StoreFull, StoreMisused, StoreUnavailable
from claimq.fsync_setting import with_refused
from claimq.model import ServerReport, ServerWarning
from claimq.queue.internals import internals
from claimq.redis_store.faults import lacks_right

_MOST_QUEUES = 100
"""Most queues of the server's index whose policies are compared with the server."""


async def server_report(server: claimq.Server) -> ServerReport:
    """The report, also with a warning for each listed queue whose ``durability`` the server refuses.

    A user who may not read the index or a policy gets no such warning. Raises as :meth:`claimq.Server.report`.
    """
    found = await server.report()
    try:
        for name in (await server.queues(only_existing=False))[:_MOST_QUEUES]:
            policy = await server.queue(name).policy()
            always = policy.appendfsync_always
            found = with_refused(found, policy.durability, is_always=always, queue=f"queue {name}")
    except ClaimqError:
        return found
    return found


async def script_warnings(server: claimq.Server) -> list[ServerWarning]:
    """The warning for a server that cannot run scripts, if it cannot. The trial writes nothing, and runs on a listed
    queue. A user who lacks rights to that queue gets no warning."""
    try:
        name = next(iter(await server.queues(only_existing=False)), "report")
    except ClaimqError:
        name = "report"
    try:
        await internals(server.queue(name)).try_scripts()
    except StoreFull:
        return []  # which has a warning of its own
    except StoreUnavailable as error:
        return [ServerWarning("WritesRefused", str(error))]
    except StoreMisused as error:
        return [] if lacks_right(error) else [ServerWarning("ScriptsRefused", str(error))]
    return []
