"""Starts the watches again after they have ended, and waits while the kind of the queues is missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from claimq_kubernetes.port import QUEUES, Cluster, ClusterError, NotFound
from claimq_process.log_lines import LogEvent

CHECK_SECONDS = 2.0
"""How often the API server is asked for a missing kind."""
_PAUSE_SECONDS = 5.0
_log = logging.getLogger(__name__)


async def keep_watching(
    watch: Callable[[], Awaitable[None]], cluster: Cluster, namespaces: tuple[str, ...]
) -> None:
    """Runs ``watch`` until it returns. If the API server ends a watch, as after the deletion of the CRD, ``watch``
    raises an error. Then it is started again, once the kind exists."""
    while True:
        await _wait_until_defined(cluster, namespaces)
        try:
            await watch()
        except Exception as error:  # noqa: BLE001 - kopf has no public class for errors of the API server
            if not await _is_missing(cluster, namespaces):
                _log.error(LogEvent("watches_ended", error=repr(error)), exc_info=error)
                await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


async def _wait_until_defined(cluster: Cluster, namespaces: tuple[str, ...]) -> None:
    if not await _is_missing(cluster, namespaces):
        return
    fix = "install the CRD reliablequeues.claimq.dev; the operator need not be restarted"
    _log.error(LogEvent("definition_missing", fix=fix))
    is_missing = True
    while is_missing:
        await asyncio.sleep(CHECK_SECONDS)
        is_missing = await _is_missing(cluster, namespaces)
    _log.info(LogEvent("definition_found"))


async def _is_missing(cluster: Cluster, namespaces: tuple[str, ...]) -> bool:
    """Whether queues cannot be watched because the API server does not know their kind. False if it does not answer."""
    try:
        if not await cluster.has_kind(QUEUES):
            return True
        await cluster.list(QUEUES, next(iter(namespaces), None), fields="metadata.name=none")
    except NotFound:
        return True
    except ClusterError:
        return False
    return False
