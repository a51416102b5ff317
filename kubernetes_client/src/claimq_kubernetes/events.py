"""The bodies of Events about ReliableQueues, as operator and web page write them. Pure."""

from __future__ import annotations

from claimq_kubernetes.port import EVENTS, QUEUES, Json
from claimq_process.timestamps import format_time

_LONGEST_MESSAGE = 1000


def queue_reference(namespace: str, name: str, uid: str) -> Json:
    """The reference of an Event to a ReliableQueue."""
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }


def event(
    about: Json,
    suffix: str,
    reason: str,
    message: str,
    *,
    at: float,
    first_at: float | None = None,
    count: int = 1,
    kind: str = "Normal",
    component: str,
    instance: str,
) -> Json:
    """An Event about the object of :func:`queue_reference`. ``suffix``: identifies it among those about the object.

    ``at``, ``first_at``: Unix seconds of the last and of the first occurrence. ``count``: number of occurrences.
    ``kind``: Normal or Warning. ``instance``: the process that writes the Event.
    """
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{about['name']}.{suffix}", "namespace": about["namespace"]},
        "involvedObject": about,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "type": kind,
        "count": count,
        "firstTimestamp": format_time(at if first_at is None else first_at),
        "lastTimestamp": format_time(at),
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": instance,
    }
