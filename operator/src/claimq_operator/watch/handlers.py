"""Watches objects with kopf and puts them into the cache. The only module that imports kopf.

Only event handlers are used, so kopf writes nothing to the cluster: no annotations, no finalizers, no Events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import kopf

from claimq.concurrency.backoff import Backoff
from claimq_kubernetes.labels import SELECTOR
from claimq_kubernetes.port import DEPLOYMENTS, PODS, QUEUES
from claimq_operator.settings import OperatorSettings
from claimq_operator.watch.cache import Cache

_FAILURES = ("kopf._core.reactor.orchestration", "kopf._core.reactor.running")
"""Loggers of kopf for errors that it also raises. The caller of :func:`watch` logs these errors."""
# Watches are closed and reopened before a middlebox could silently drop an idle connection.
_WATCH_SECONDS = 300
_CLIENT_SECONDS = 330
_PAGE = 10
"""Objects in a page of a list: tenants choose their size, up to 1.5 MB each."""
_IDLE_SECONDS = 0.5
"""How long kopf keeps the last event of an object, with the whole object."""


class _AllTasks(frozenset["asyncio.Task[Any]"]):
    """Contains every task. kopf cancels all tasks that began after it, except those in a set that it gets. The tasks of
    the operator must outlive the watches."""

    def __contains__(self, task: object) -> bool:
        return True


class NoDiffs(kopf.DiffBaseStorage):
    """Compares no objects: no handler needs their differences.

    kopf copies each object of each event to compare it. The copy of an object of five hundred levels fails, and its
    event is lost.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Nothing of an object is compared."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        """Nothing is stored."""

    def store(self, **_: Any) -> None:
        """Nothing is stored."""


def registry(cache: Cache) -> kopf.OperatorRegistry:
    """The kopf handlers and settings."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(registry=handlers)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True
        settings.posting.enabled = False
        # kopf would end the process some time after it has stopped, but the operator starts kopf again.
        settings.process.ultimate_exiting_timeout = None
        settings.persistence.diffbase_storage = NoDiffs()
        settings.watching.chunk_size = _PAGE
        settings.queueing.idle_timeout = _IDLE_SECONDS
        settings.watching.server_timeout = _WATCH_SECONDS
        settings.watching.client_timeout = _CLIENT_SECONDS
        settings.watching.label_selectors[DEPLOYMENTS.plural] = SELECTOR
        settings.watching.label_selectors[PODS.plural] = SELECTOR
        settings.networking.error_backoffs = Backoff(0.5, 5.0)  # endless, or an outage would end kopf
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 5

    @kopf.on.login(registry=handlers)
    def log_in(**arguments: Any) -> kopf.ConnectionInfo | None:
        login = kopf.login_with_service_account(**arguments)
        return login or kopf.login_with_kubeconfig(**arguments)

    @kopf.on.event("claimq.dev", "v1alpha1", QUEUES.plural, registry=handlers)
    async def queue_event(event: kopf.RawEvent, **_: Any) -> None:
        cache.update_queue(_taken(event), is_gone=event["type"] == "DELETED")

    @kopf.on.event("apps", "v1", DEPLOYMENTS.plural, registry=handlers)
    async def deployment_event(event: kopf.RawEvent, **_: Any) -> None:
        cache.update_deployment(_plain(event), is_gone=event["type"] == "DELETED")

    @kopf.on.event("", "v1", PODS.plural, registry=handlers)
    async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
        cache.update_pod(_plain(event), is_gone=event["type"] == "DELETED")

    return handlers


def _taken(event: kopf.RawEvent) -> dict[str, Any]:
    """A copy of the object. kopf keeps the event, so the event loses all but what kopf needs: the metadata."""
    body = _plain(event)
    for name in ("spec", "status"):
        event["object"].pop(name, None)  # type: ignore[misc]  # the keys of the library's TypedDict
    return body


def _plain(event: kopf.RawEvent) -> dict[str, Any]:
    return {**event["object"]}


async def watch(
    handlers: kopf.OperatorRegistry,
    settings: OperatorSettings,
    stop: asyncio.Event,
    install_signal_handlers: Callable[[], None],
) -> None:
    """Watches until ``stop`` is set. ``install_signal_handlers`` replaces the signal handlers that kopf installs.

    Raises an error if a watch is refused, as with the status 404 after the deletion of the CRD.
    """
    for name in _FAILURES:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    tasks = await kopf.spawn_tasks(
        registry=handlers,
        standalone=True,  # no peering: it can pause all operators at once, and leader election does not need it
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=stop,
    )
    install_signal_handlers()
    await kopf.run_tasks(tasks, ignored=_AllTasks())
