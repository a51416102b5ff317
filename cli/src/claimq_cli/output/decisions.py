"""The numbers of a scaling decision, as rows for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq_spec.duration import readable_duration


def decision_rows(decision: Mapping[str, Any]) -> list[list[str]]:
    """What each number is, its value, and its error where it is an estimate."""
    return [*_inputs(decision.get("inputs", {})), *_demand(decision.get("demand", {}))]


def _inputs(inputs: Mapping[str, Any]) -> list[list[str]]:
    names = {
        "main": "items waiting",
        "busy": "items in progress",
        "delayedSoon": "delayed items due soon",
        "replicas": "workers ordered",
        "ready": "workers ready",
        "starting": "workers starting",
        "busyWorkers": "workers with claims",
    }
    rows = [[text, f"{inputs[name]:,}", ""] for name, text in names.items() if name in inputs]
    if "oldestAge" in inputs:
        rows.insert(1, ["age of the oldest item", readable_duration(inputs["oldestAge"]), ""])
    return rows


def _demand(demand: Mapping[str, Any]) -> list[list[str]]:
    if not demand:
        return []
    estimates = {
        "arrivalsPerSecond": "arrivals per second",
        "secondsPerItem": "seconds per item",
        "secondsToStart": "seconds until a new worker claims",
    }
    rules = {
        "forDeadlines": "workers to start every item in time",
        "forArrivals": "workers to keep up with arrivals",
        "forItemsPerReplica": "workers for itemsPerReplica",
        "mostUseful": "workers that would have an item",
        "wanted": "workers wanted, before limits",
        "minReplicas": "minReplicas",
        "maxReplicas": "maxReplicas",
    }
    rows = [[text, f"{demand[name]:,}", f"{demand[f'{name}Error']:,}"] for name, text in estimates.items()]
    return rows + [[text, f"{demand[name]:,}", ""] for name, text in rules.items() if name in demand]
