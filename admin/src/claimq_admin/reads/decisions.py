"""The numbers of a scaling decision, as rows for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from claimq_process.duration import readable_duration

_MOST: Final = 1e15
_INPUTS: Final = {
    "main": "items waiting",
    "busy": "items in progress",
    "delayedSoon": "delayed items due soon",
    "replicas": "workers ordered",
    "ready": "workers ready",
    "starting": "workers starting",
    "busyWorkers": "workers with claims",
}
_ESTIMATES: Final = {
    "arrivalsPerSecond": "arrivals per second",
    "secondsPerItem": "seconds per item",
    "secondsToStart": "seconds until a new worker claims",
}
_RULES: Final = {
    "forDeadlines": "workers to start every item in time",
    "forArrivals": "workers to keep up with arrivals",
    "forItemsPerReplica": "workers for itemsPerReplica",
    "mostUseful": "workers that would have an item",
    "wanted": "workers wanted, before limits",
    "minReplicas": "minReplicas",
    "maxReplicas": "maxReplicas",
}


def decision_rows(decision: Mapping[str, Any]) -> list[list[str]]:
    """Rows: what a number is, its value, and its error if it is an estimate. Values that are no numbers are left out:
    other users may write the status of a ReliableQueue."""
    inputs, demand = _numbers(decision.get("inputs")), _numbers(decision.get("demand"))
    rows = [[text, f"{inputs[name]:,}", ""] for name, text in _INPUTS.items() if name in inputs]
    if "oldestAge" in inputs:
        rows.insert(1, ["age of the oldest item", readable_duration(inputs["oldestAge"]), ""])
    for name, text in _ESTIMATES.items():
        if name in demand and f"{name}Error" in demand:
            rows.append([text, f"{demand[name]:,}", f"{demand[f'{name}Error']:,}"])
    return rows + [[text, f"{demand[name]:,}", ""] for name, text in _RULES.items() if name in demand]


def _numbers(values: object) -> dict[str, float]:
    if not isinstance(values, dict):
        return {}
    decision = cast("dict[str, object]", values)
    return {
        name: value
        for name, value in decision.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
    }
