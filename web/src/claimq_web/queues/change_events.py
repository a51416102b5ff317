"""Writes an Event of Kubernetes about each change by hand. Rates of a user and of a namespace bound them."""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from claimq_admin.text import count as counted
from claimq_kubernetes.events import event, queue_reference
from claimq_kubernetes.port import EVENTS, Cluster, ClusterError, Json
from claimq_web.remembered import remember
from claimq_web.users.budget import Budget, Rate

_COMPONENT = "claimq-web"
_OF_A_USER, _OF_A_NAMESPACE = Rate(0.1, 10), Rate(0.5, 50)
"""Each Event is an object that the API server keeps for an hour; the audit log of the queue has all changes."""
_MOST_BUDGETS = 2000
_log = logging.getLogger(__name__)


class ChangeEvents:
    """Events about changes by hand. What is beyond the rates is counted, and the next Event names the number."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._budgets: OrderedDict[str, Budget] = OrderedDict()
        self._left_out: Counter[str] = Counter()

    async def emit(self, metadata: Json, user: str, text: str) -> None:
        """Writes what a user has done with the object of this metadata. An error is logged."""
        uid, namespace = metadata["uid"], metadata["namespace"]
        if not self._has_room(f"user {user} {uid}", _OF_A_USER, f"namespace {namespace}", _OF_A_NAMESPACE):
            self._left_out[uid] += 1
            return
        left_out = self._left_out.pop(uid, 0)
        more = f"; {counted(left_out, 'earlier change')} only in the audit log" if left_out else ""
        body = event(
            queue_reference(namespace, metadata["name"], uid),
            secrets.token_hex(8),
            "ChangedByHand",
            f"{user}: {text}{more}",
            at=time.time(),  # noqa: TID251 - Events have the wall clock
            component=_COMPONENT,
            instance=_COMPONENT,
        )
        try:
            await self._cluster.create(EVENTS, body)
        except ClusterError as error:
            _log.warning("an Event about %s/%s was not written: %s", namespace, metadata["name"], error)

    def forget(self, uid: str) -> None:
        """The object with this uid is gone."""
        self._left_out.pop(uid, None)

    def _has_room(self, user: str, of_user: Rate, namespace: str, of_namespace: Rate) -> bool:
        now = self._clock()
        budgets = [self._budget(user, of_user, now), self._budget(namespace, of_namespace, now)]
        if any(budget.seconds_to_wait(now) > 0 for budget in budgets):
            return False
        for budget in budgets:
            budget.left -= 1.0
        return True

    def _budget(self, key: str, rate: Rate, now: float) -> Budget:
        budget = self._budgets.get(key) or Budget.full(rate, now)
        remember(self._budgets, key, budget, _MOST_BUDGETS)
        return budget
