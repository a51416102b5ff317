"""Kubernetes Events about queues: few, aggregated, never one for each item."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from claimq_operator.kubernetes_api.labels import FIELD_MANAGER
from claimq_operator.kubernetes_api.port import EVENTS, Cluster, ClusterError, Json
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.kubernetes_api.timestamps import format_time
from claimq_spec.log_lines import LogEvent

QUIET_SECONDS = 5.0
"""The least time between two events of the same reason about one queue; those between are counted."""
_REMEMBERED = 2000
_LONGEST = 1000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    at: float
    left_out: int = 0
    count: int = 0
    first_at: float = 0.0
    message: str = ""


class EventRecorder:
    """Writes events; a failure to do so is logged and forgotten."""

    def __init__(self, cluster: Cluster, wall: Callable[[], float], identity: str) -> None:
        self._cluster = cluster
        self._wall = wall
        self._identity = identity
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()

    async def tell(
        self, resource: QueueResource, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """One event. ``reason`` is a CamelCase word, ``message`` a sentence."""
        now = self._wall()
        last = self._told.get((resource.uid, reason))
        if last is not None and now - last.at < QUIET_SECONDS:
            last.left_out += 1
            return
        if last is not None and last.left_out:
            message = f"{message} ({last.left_out} more of this kind were left out)"
        is_same = last is not None and last.message == message
        told = last if last is not None and is_same else _Told(now, first_at=now, message=message)
        told.at, told.left_out, told.count = now, 0, told.count + 1
        self._told[resource.uid, reason] = told
        self._told.move_to_end((resource.uid, reason))
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        kind = "Warning" if warning else "Normal"
        shown = f"{resource.namespace}/{resource.name}"
        _log.info(LogEvent("kubernetes_event", queue=shown, reason=reason, msg=message))
        try:
            await self._cluster.apply(self._event(resource, reason, told, kind), manager=FIELD_MANAGER)
        except ClusterError as error:
            _log.warning(LogEvent("event_not_written", queue=shown, reason=reason, error=error))

    def _event(self, resource: QueueResource, reason: str, told: _Told, kind: str) -> Json:
        digest = hashlib.sha256(
            f"{resource.uid} {reason} {told.first_at} {told.message}".encode()
        ).hexdigest()
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{resource.name}.{digest[:16]}", "namespace": resource.namespace},
            "involvedObject": resource.reference(),
            "reason": reason,
            "message": told.message[:_LONGEST],
            "type": kind,
            "count": told.count,
            "firstTimestamp": format_time(told.first_at),
            "lastTimestamp": format_time(told.at),
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._identity,
        }
