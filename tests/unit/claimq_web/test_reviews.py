"""Rights on the page of a cluster: what is asked of the API server, how often, and what its answers mean."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from claimq_admin.reads.documents import Json
from claimq_kubernetes.port import ClusterUnavailable, Kind
from claimq_web.users.access import Right, SameForAll
from claimq_web.users.login import Session, User
from claimq_web.users.reviews import ReviewedAccess, TokenLogin

ANN = Session(User("ann", ("dev",), "7", (("scopes", ("a", "b")),)))
NAMES = ["shop.orders", "shop.mails", "media.thumbs"]


class Reviews:
    """Answers reviews as an API server does."""

    def __init__(self, answer: Callable[[Json], Json]) -> None:
        self.specs: list[Json] = []
        self._answer = answer

    async def create(self, kind: Kind, body: Json) -> Json:
        assert body["kind"] == kind.kind
        self.specs.append(body["spec"])
        return {"status": self._answer(body["spec"])}


def access(allowed: Callable[[Json], bool], *, may_act: bool = True) -> tuple[ReviewedAccess, Reviews]:
    reviews = Reviews(lambda spec: {"allowed": allowed(spec["resourceAttributes"])})
    return ReviewedAccess(reviews, may_act=may_act), reviews  # type: ignore[arg-type]  # it only creates


async def test_a_right_is_a_permission_of_that_user_on_that_object() -> None:
    found, reviews = access(lambda _: True)
    assert await found.may(ANN, Right.CHANGE, "shop.orders.eu")
    (spec,) = reviews.specs
    assert spec["resourceAttributes"] == {
        "group": "claimq.dev",
        "resource": "reliablequeues",
        "subresource": "items",
        "verb": "update",
        "namespace": "shop",
        "name": "orders.eu",
    }
    assert (spec["user"], spec["uid"], spec["extra"]) == ("ann", "7", {"scopes": ["a", "b"]})
    assert spec["groups"] == ["dev", "system:authenticated"]


async def test_who_may_evict_all_pods_of_the_namespace_may_drain_workers() -> None:
    found, reviews = access(lambda attributes: attributes["verb"] == "create")
    assert await found.may(ANN, Right.DRAIN, "shop.orders")
    assert reviews.specs[0]["resourceAttributes"] == {
        "group": "",
        "resource": "pods",
        "subresource": "eviction",
        "verb": "create",
        "namespace": "shop",
        "name": "",
    }
    assert not await found.may(ANN, Right.SUSPEND, "shop.orders")


@pytest.mark.parametrize("right", [one for one in Right if one not in (Right.LOOK, Right.READ)])
async def test_without_actions_no_user_may_change_anything(right: Right) -> None:
    found, reviews = access(lambda _: True, may_act=False)
    assert not await found.may(ANN, right, "shop.orders")
    assert reviews.specs == []


async def test_without_a_login_or_a_namespace_nothing_is_allowed() -> None:
    found, reviews = access(lambda _: True)
    assert not await found.may(None, Right.LOOK, "shop.orders")
    assert await found.visible(None, NAMES) == set()
    for name in ("orders", ".orders", "shop."):
        assert not await found.may(ANN, Right.LOOK, name)
    assert reviews.specs == []


async def test_an_answer_is_remembered_for_20_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, is_allowed = 1000.0, True
    monkeypatch.setattr("claimq_web.users.reviews.time.monotonic", lambda: now)
    found, reviews = access(lambda _: is_allowed)
    assert await found.may(ANN, Right.LOOK, "shop.orders")
    is_allowed = False
    now += 19.0
    assert await found.may(ANN, Right.LOOK, "shop.orders")
    now += 2.0
    assert not await found.may(ANN, Right.LOOK, "shop.orders")
    assert len(reviews.specs) == 2


async def test_an_api_server_that_does_not_answer_allows_nothing() -> None:
    def refuse(_: Json) -> bool:
        raise ClusterUnavailable("away")

    found, _ = access(refuse)
    with pytest.raises(ClusterUnavailable):
        await found.may(ANN, Right.LOOK, "shop.orders")


def everything(asked: Json) -> bool:
    return not asked["namespace"]


def one_namespace(asked: Json) -> bool:
    return bool(asked["namespace"] == "shop" and not asked["name"])


def one_queue(asked: Json) -> bool:
    return bool(asked["name"] == "mails")


def nothing(_: Json) -> bool:
    return False


@pytest.mark.parametrize(
    ("allowed", "seen", "count"),
    [
        (everything, set(NAMES), 1),
        (one_namespace, {"shop.orders", "shop.mails"}, 4),
        (one_queue, {"shop.mails"}, 6),
        (nothing, set[str](), 6),
    ],
    ids=["all of the cluster", "one namespace", "one queue", "nothing"],
)
async def test_a_user_sees_a_cluster_a_namespace_or_single_queues(
    allowed: Callable[[Json], bool], seen: set[str], count: int
) -> None:
    found, reviews = access(allowed)
    assert await found.visible(ANN, NAMES) == seen
    assert len(reviews.specs) == count
    await found.visible(ANN, NAMES)
    assert len(reviews.specs) == count


async def test_single_queues_of_a_list_are_reviewed_up_to_a_limit() -> None:
    found, reviews = access(lambda one: bool(one["name"]))
    names = [f"shop.q{number}" for number in range(1000)]
    assert await found.visible(ANN, names) == set(names[:200])
    assert len(reviews.specs) == 202


def jwt(claims: object) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{middle}.tail"


@pytest.mark.parametrize(
    ("token", "seconds"),
    [
        (jwt({"exp": 10_060}), 60.0),
        (jwt({"exp": 99_999}), 3600.0),
        (jwt({}), 3600.0),
        (jwt([]), 3600.0),
        ("opaque", 3600.0),
        ("a.%%%.c", 3600.0),
    ],
)
async def test_a_session_lasts_as_long_as_its_token_and_an_hour_at_most(
    monkeypatch: pytest.MonkeyPatch, token: str, seconds: float
) -> None:
    monkeypatch.setattr("claimq_web.users.reviews.time.time", lambda: 10_000.0)
    monkeypatch.setattr("claimq_web.users.reviews.time.monotonic", lambda: 5.0)
    reviews = Reviews(lambda _: {"authenticated": True, "user": {"username": "ann", "groups": ["dev"]}})
    user = await TokenLogin(reviews)(token)  # type: ignore[arg-type]  # it only creates
    assert user is not None
    assert user == User("ann", ("dev",))
    assert user.expires_at == 5.0 + seconds


@pytest.mark.parametrize(
    "status", [{}, {"authenticated": False, "user": {"username": "x"}}, {"authenticated": True}]
)
async def test_a_token_that_is_not_accepted_has_no_user(status: Json) -> None:
    assert await TokenLogin(Reviews(lambda _: status))("token") is None  # type: ignore[arg-type]  # likewise


@pytest.mark.parametrize("may_act", [True, False])
async def test_without_kubernetes_all_users_have_the_same_rights(may_act: bool) -> None:
    same = SameForAll(may_act=may_act)
    assert await same.visible(None, NAMES) == set(NAMES)
    rights = [await same.may(ANN, right, "q") for right in Right]
    assert rights == [True, True, may_act, False, False, may_act, may_act]
    assert not await same.may(None, Right.CHANGE, "q")
    local = SameForAll(may_act=may_act, has_workers=True)
    for right in (Right.DRAIN, Right.SUSPEND):
        assert await local.may(ANN, right, "q") == may_act
        assert not await local.may(None, right, "q")
