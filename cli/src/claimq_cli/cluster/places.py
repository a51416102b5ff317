"""Which object of a cluster a host name belongs to. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A Service or pod that a port can be forwarded to."""

    kind: str
    name: str
    namespace: str


def place_of(host: str, namespace: str) -> Place | None:
    """The Service or pod with this host name, as pods of the namespace resolve it; None for other hosts.

    ``valkey``, ``valkey.shop.svc`` and ``valkey.shop.svc.cluster.local`` are the Service, ``valkey-0.valkey.shop.svc``
    is a pod of it (see DNS for Services and Pods in the documentation of Kubernetes). Names with one dot do not come
    here, except with a dot at their end (:func:`claimq.address.redis_url.with_namespace`).
    """
    labels = host.rstrip(".").split(".")
    if _is_address(host) or host == "localhost" or not all(labels):
        return None
    match labels:
        case [service]:
            return Place("service", service, namespace)
        case [service, where, "svc", *_]:
            return Place("service", service, where)
        case [pod, _, where, "svc", *_]:
            return Place("pod", pod, where)
        case _:
            return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
