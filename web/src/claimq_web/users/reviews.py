"""Logins and rights of users of Kubernetes, as its API server reviews them.

A TokenReview says whose token it is, a SubjectAccessReview whether a user has a permission; both need the rules of the
cluster role ``system:auth-delegator``. See "Authenticating" and "Authorization Overview" in the documentation of
Kubernetes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import cast

from claimq_kubernetes.port import ACCESS_REVIEWS, PODS, QUEUES, TOKEN_REVIEWS, Cluster, Json, part
from claimq_web.remembered import remember
from claimq_web.users.access import Right
from claimq_web.users.login import Session, User

_REMEMBERED_SECONDS = 20.0
_MOST_REMEMBERED = 20_000
_MOST_SINGLE = 200
"""Queues that are reviewed one by one for a list, where the user may not see all of their namespace."""
_MOST_SECONDS = 3600.0
"""The longest session of a token that does not say when it expires."""
_EVERYONE = "system:authenticated"
_NEEDED = {
    Right.LOOK: ("get", QUEUES, ""),
    Right.READ: ("get", QUEUES, "items"),
    Right.CHANGE: ("update", QUEUES, "items"),
    Right.SUSPEND: ("patch", QUEUES, ""),
    Right.DRAIN: ("create", PODS, "eviction"),
    Right.ADD: ("create", QUEUES, "items"),
    Right.CONFIGURE: ("patch", QUEUES, ""),
}
"""Verb, kind and subresource. ``items`` exists only in roles: no request to the API server has it. Workers are drained
by who may evict all pods of the namespace.
"""
_READING = (Right.LOOK, Right.READ)


class TokenLogin:
    """Finds users by tokens that the API server accepts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def __call__(self, token: str) -> User | None:
        """The user with this token; None if the API server does not accept it. ClusterError."""
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "metadata": {},
            "spec": {"token": token},
        }
        status = part(await self._cluster.create(TOKEN_REVIEWS, body), "status")
        user = part(status, "user")
        if not status.get("authenticated") or not user.get("username"):
            return None
        extra = {key: tuple(values) for key, values in sorted(part(user, "extra").items())}
        return User(
            str(user["username"]),
            tuple(user.get("groups") or ()),
            str(user.get("uid") or ""),
            tuple(extra.items()),
            expires_at=_expires_at(token),
        )


class ReviewedAccess:
    """Rights by SubjectAccessReviews, each remembered for 20 seconds."""

    def __init__(self, cluster: Cluster, *, may_act: bool) -> None:
        """``may_act``: users with the permission may change items and queues; otherwise no user may."""
        self._cluster = cluster
        self._may_act = may_act
        self._known: OrderedDict[tuple[User, Right, str, str], tuple[float, bool]] = OrderedDict()

    async def may(self, session: Session | None, right: Right, name: str) -> bool:
        """Whether the user of the session has this right on the ReliableQueue ``NAMESPACE.NAME``. ClusterError."""
        if session is None or not (right in _READING or self._may_act):
            return False
        namespace, _, resource = name.partition(".")
        if not (namespace and resource):
            return False
        reviewed = "" if right is Right.DRAIN else resource
        return await self._reviewed(session.identity, right, namespace, reviewed)

    async def visible(self, session: Session | None, names: Sequence[str]) -> set[str]:
        """The queues whose numbers the user may see: those of a whole namespace, or single ones. ClusterError."""
        if session is None:
            return set()
        if await self._reviewed(session.identity, Right.LOOK, "", ""):
            return set(names)
        by_namespace: dict[str, list[str]] = {}
        for name in names:
            by_namespace.setdefault(name.partition(".")[0], []).append(name)
        allowed = await asyncio.gather(
            *(self._reviewed(session.identity, Right.LOOK, namespace, "") for namespace in by_namespace)
        )
        visible: set[str] = set()
        single: list[str] = []
        for members, is_allowed in zip(by_namespace.values(), allowed, strict=True):
            visible.update(members) if is_allowed else single.extend(members)
        reviewed = single[:_MOST_SINGLE]
        answers = await asyncio.gather(*(self.may(session, Right.LOOK, name) for name in reviewed))
        return visible.union(name for name, answer in zip(reviewed, answers, strict=True) if answer)

    async def _reviewed(self, user: User, right: Right, namespace: str, name: str) -> bool:
        """An empty namespace or name stands for all of them."""
        key = (user, right, namespace, name)
        at, answer = self._known.get(key, (0.0, False))
        if time.monotonic() - at > _REMEMBERED_SECONDS:
            answer = await self._review(user, right, namespace, name)
            remember(self._known, key, (time.monotonic(), answer), _MOST_REMEMBERED)
        return answer

    async def _review(self, user: User, right: Right, namespace: str, name: str) -> bool:
        verb, kind, subresource = _NEEDED[right]
        attributes = {
            "group": kind.api_version.rpartition("/")[0],
            "resource": kind.plural,
            "subresource": subresource,
            "verb": verb,
            "namespace": namespace,
            "name": name,
        }
        body = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "metadata": {},
            "spec": {
                "user": user.name,
                "groups": list(dict.fromkeys((*user.groups, _EVERYONE))),
                "uid": user.uid,
                "extra": {key: list(values) for key, values in user.extra},
                "resourceAttributes": attributes,
            },
        }
        return bool(part(await self._cluster.create(ACCESS_REVIEWS, body), "status").get("allowed"))


def _expires_at(token: str) -> float:
    """The instant (``time.monotonic()``) at which a session with this token ends: when the token expires, and after an
    hour at the latest.

    The API server has accepted the token, so that what it says of itself can be believed.
    """
    try:
        middle = token.split(".")[1]
        claims = cast("Json", json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4))))
        remaining = float(claims["exp"]) - time.time()  # noqa: TID251 - tokens of Kubernetes have the wall clock
    except (IndexError, KeyError, TypeError, ValueError):
        remaining = _MOST_SECONDS
    return time.monotonic() + min(remaining, _MOST_SECONDS)
