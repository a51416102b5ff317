"""The PodDisruptionBudgets of namespaces, and which pods they select."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq_kubernetes.port import BUDGETS, Cluster, Json, part, parts

BUDGET_SECONDS = 20.0
"""How old a list of budgets may be. They are not watched."""
_MAX_SELECTOR = 4096
"""Characters of a selector that is kept. A longer one counts as one that selects all pods."""


@dataclass(frozen=True, slots=True)
class BudgetList:
    """The selectors of a namespace's budgets by name, and when the list was requested (monotonic seconds)."""

    at: float
    selectors: Mapping[str, Json | None]

    def others_select(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a budget of another name selects a pod with these labels."""
        return any(selects(selector, labels) for other, selector in self.selectors.items() if other != name)


class Budgets:
    """Lists the budgets of a namespace once for all queues in it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reads: dict[str, tuple[float, asyncio.Task[BudgetList]]] = {}

    async def of(self, namespace: str, now: float) -> BudgetList:
        """The budgets of a namespace, at most :data:`BUDGET_SECONDS` old. Raises ClusterError."""
        at, task = self._reads.get(namespace, (float("-inf"), None))
        if task is None or now - at >= BUDGET_SECONDS or _has_failed(task):
            self._reads = {name: read for name, read in self._reads.items() if now - read[0] < BUDGET_SECONDS}
            task = asyncio.create_task(self._read(namespace, now), name=f"budgets of {namespace}")
            task.add_done_callback(_has_failed)  # its exception counts as seen, if all callers are cancelled
            self._reads[namespace] = now, task
        await asyncio.wait({task})  # a caller that is cancelled does not end the request of the others
        return task.result()

    async def _read(self, namespace: str, now: float) -> BudgetList:
        budgets = await self._cluster.list(BUDGETS, namespace, keep=_trim)
        return BudgetList(now, {budget["name"]: budget["selector"] for budget in budgets})


def _has_failed(task: asyncio.Task[BudgetList]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _trim(body: Json) -> Json:
    selector = part(body, "spec").get("selector")
    is_long = len(json.dumps(selector)) > _MAX_SELECTOR
    return {"name": body["metadata"]["name"], "selector": {} if is_long else selector}


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches the labels. An empty one matches all; None, which is absent, matches none."""
    if selector is None:
        return False
    return part(selector, "matchLabels").items() <= labels.items() and all(
        _holds(expression, labels) for expression in parts(selector, "matchExpressions")
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key: str = expression["key"]
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
