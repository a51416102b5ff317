"""Decides whether the status of a ReliableQueue has to be written. Pure.

A write on every pass would load etcd, so small changes of numbers are written later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq_kubernetes.port import part, parts

_AGE_TOLERANCE = 0.2
"""The relative difference up to which two ages count as equal."""


def is_urgent(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether conditions, the desired or ready workers, or the observed generation differ. Such a status is written at
    once. The number of busy workers changes with each item, so it is not."""
    return (
        _condition_states(new) != _condition_states(old)
        or new.get("observedGeneration") != old.get("observedGeneration")
        or any(new.get(key) != old.get(key) for key in ("selector", "queueName"))
        or any(part(new, "workers").get(key) != part(old, "workers").get(key) for key in ("desired", "ready"))
    )


def has_changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether any visible value differs. Such a status is written once the status period has passed."""
    if is_urgent(new, old) or any(new.get(key) != old.get(key) for key in ("items", "waiting", "workers")):
        return True
    if new.get("redis") != old.get("redis") or _messages(new) != _messages(old):
        return True
    decided, decided_before = part(new, "scaling"), part(old, "scaling")
    if any(decided.get(key) != decided_before.get(key) for key in ("rule", "replicas")):
        return True
    return not _are_close(part(new, "ages"), part(old, "ages"))


def _condition_states(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        tuple(condition.get(key) for key in ("type", "status", "reason", "observedGeneration"))
        for condition in parts(status, "conditions")
    ]


def _messages(status: Mapping[str, Any]) -> list[Any]:
    return [condition.get("message") for condition in parts(status, "conditions")]


def _are_close(new: Mapping[str, float], old: Mapping[str, float]) -> bool:
    if new.keys() != old.keys():
        return False
    return all(abs(new[key] - old[key]) <= max(_AGE_TOLERANCE * max(new[key], old[key]), 1.0) for key in new)
