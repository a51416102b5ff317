"""Emits Kubernetes Events about queues: rate-limited and aggregated, never one per item."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from claimq_kubernetes.events import event, queue_reference
from claimq_kubernetes.labels import FIELD_MANAGER
from claimq_kubernetes.port import Cluster, ClusterError, Json
from claimq_kubernetes.queue_resource import QueueResource
from claimq_process.log_lines import LogEvent

QUIET_SECONDS = 5.0
"""The minimum time between two Events of the same reason about one queue; those in between are counted."""
_MAX_SERIES = 2000
_log = logging.getLogger(__name__)


def counted(count: int, noun: str) -> str:
    """The count with its noun: ``1 item``, ``2,000 items``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@dataclass(slots=True)
class _Series:
    """The last Event of one reason about one queue."""

    last_at: float
    suppressed: int = 0
    count: int = 0
    first_at: float = 0.0
    message: str = ""


class EventRecorder:
    """Writes Events. An Event that cannot be written is logged and dropped."""

    def __init__(self, cluster: Cluster, wall_clock: Callable[[], float], identity: str) -> None:
        self._cluster = cluster
        self._wall_clock = wall_clock
        self._identity = identity
        self._series: OrderedDict[tuple[str, str], _Series] = OrderedDict()

    async def emit(
        self, resource: QueueResource, reason: str, message: str, *, warning: bool = False
    ) -> ClusterError | None:
        """Emits one Event. ``reason`` is a CamelCase word, ``message`` a sentence.

        Returns the error if it could not be written.
        """
        now = self._wall_clock()
        last = self._series.get((resource.uid, reason))
        if last is not None and now - last.last_at < QUIET_SECONDS:
            last.suppressed += 1
            return None
        if last is not None and last.suppressed:
            message = f"{message} ({last.suppressed} more of this kind were left out)"
        is_same = last is not None and last.message == message
        series = last if last is not None and is_same else _Series(now, first_at=now, message=message)
        series.last_at, series.suppressed, series.count = now, 0, series.count + 1
        self._series[resource.uid, reason] = series
        self._series.move_to_end((resource.uid, reason))
        while len(self._series) > _MAX_SERIES:
            self._series.popitem(last=False)
        _log.info(LogEvent("kubernetes_event", queue=resource.full_name, reason=reason, msg=message))
        body = self._event(resource, reason, series, "Warning" if warning else "Normal")
        try:
            await self._cluster.apply(body, manager=FIELD_MANAGER)
        except ClusterError as error:
            _log.warning(LogEvent("event_not_written", queue=resource.full_name, reason=reason, error=error))
            return error
        return None

    def _event(self, resource: QueueResource, reason: str, series: _Series, kind: str) -> Json:
        identity = f"{resource.uid} {reason} {series.first_at} {series.message}"
        digest = hashlib.sha256(identity.encode()).hexdigest()
        return event(
            queue_reference(resource.namespace, resource.name, resource.uid),
            digest[:16],
            reason,
            series.message,
            at=series.last_at,
            first_at=series.first_at,
            count=series.count,
            kind=kind,
            component=FIELD_MANAGER,
            instance=self._identity,
        )
