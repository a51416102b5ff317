"""The home of kopf: it watches, and each event only says that something is news. Nothing is decided here.

Only event handlers are used, so kopf writes nothing: no annotation, no finalizer, no event of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import kopf

from claimq_operator.kubernetes_api.labels import SELECTOR
from claimq_operator.kubernetes_api.port import DEPLOYMENTS, PODS, QUEUES
from claimq_operator.settings import OperatorSettings
from claimq_operator.watch.cache import Cache

# Server and client give a watch up sooner than a middlebox on the way might forget it.
_WATCH_SECONDS = 300
_CLIENT_SECONDS = 330


class _Backoffs:
    """Pauses between the attempts of one request: no end to them, or an outage of the API server would end kopf."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        while True:
            yield 5.0


def registry(cache: Cache) -> kopf.OperatorRegistry:
    """What kopf watches, and what it does with what it sees."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(registry=handlers)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True
        settings.posting.enabled = False
        settings.watching.server_timeout = _WATCH_SECONDS
        settings.watching.client_timeout = _CLIENT_SECONDS
        settings.watching.label_selectors[DEPLOYMENTS.plural] = SELECTOR
        settings.watching.label_selectors[PODS.plural] = SELECTOR
        settings.networking.error_backoffs = _Backoffs()
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 5

    @kopf.on.login(registry=handlers)
    def log_in(**arguments: Any) -> kopf.ConnectionInfo | None:
        found = kopf.login_with_service_account(**arguments)
        return found or kopf.login_with_kubeconfig(**arguments)

    @kopf.on.event("claimq.dev", "v1alpha1", QUEUES.plural, registry=handlers)
    async def queue_event(event: kopf.RawEvent, **_: Any) -> None:
        cache.see_queue(_plain(event), is_gone=event["type"] == "DELETED")

    @kopf.on.event("apps", "v1", DEPLOYMENTS.plural, registry=handlers)
    async def deployment_event(event: kopf.RawEvent, **_: Any) -> None:
        cache.see_deployment(_plain(event), is_gone=event["type"] == "DELETED")

    @kopf.on.event("", "v1", PODS.plural, registry=handlers)
    async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
        cache.see_pod(_plain(event), is_gone=event["type"] == "DELETED")

    return handlers


def _plain(event: kopf.RawEvent) -> dict[str, Any]:
    return {**event["object"]}


async def watch(
    handlers: kopf.OperatorRegistry,
    settings: OperatorSettings,
    stop: asyncio.Event,
    take_signals: Callable[[], None],
) -> None:
    """Watches until ``stop`` is set. ``take_signals`` puts our handlers of signals back in place of kopf's."""
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=handlers,
        standalone=True,  # no peering: it can freeze every operator at once, and nothing needs it
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=stop,
    )
    take_signals()
    await kopf.run_tasks(tasks, ignored=others)
