"""Which budgets select a pod, and how often they are listed."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from claimq_kubernetes.budgets import BUDGET_SECONDS, Budgets, selects
from claimq_kubernetes.port import Cluster, ClusterUnavailable, Json, Kind

LABELS = {"claimq.dev/queue": "thumbs", "team": "a"}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "is_selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchLabels": {"team": "a", "tier": "back"}}, False),
        (expression("team", "In", "a", "b"), True),
        (expression("team", "In", "b"), False),
        (expression("tier", "In", "back"), False),
        (expression("team", "NotIn", "a"), False),
        (expression("tier", "NotIn", "back"), True),
        (expression("team", "Exists"), True),
        (expression("tier", "Exists"), False),
        (expression("team", "DoesNotExist"), False),
        (expression("tier", "DoesNotExist"), True),
        ({"matchLabels": {"team": "a"}, **expression("team", "NotIn", "a")}, False),
    ],
)
def test_a_selector_selects_pods_as_in_kubernetes(selector: Json | None, is_selected: bool) -> None:
    assert selects(selector, LABELS) is is_selected


class Listing:
    """A cluster with these budgets, which counts its lists. The first ``failures`` of them fail."""

    def __init__(self, *budgets: Json, failures: int = 0) -> None:
        self.budgets = budgets
        self.failures = failures
        self.lists = 0

    async def list(self, kind: Kind, namespace: str, *, keep: Callable[[Json], Json]) -> list[Json]:
        del kind, namespace
        self.lists += 1
        await asyncio.sleep(0)
        if self.lists <= self.failures:
            raise ClusterUnavailable("no answer")
        return [keep(one) for one in self.budgets]


def budgets(listing: Listing) -> Budgets:
    return Budgets(cast("Cluster", listing))


async def test_all_queues_of_a_namespace_share_a_list_of_its_budgets() -> None:
    listing = Listing({"metadata": {"name": "other"}, "spec": {"selector": {}}})
    read = budgets(listing)
    first = await asyncio.gather(*(read.of("media", 0.0) for _ in range(50)))
    assert (listing.lists, first[0].others_select("thumbs-worker", LABELS)) == (1, True)
    assert not first[0].others_select("other", LABELS)
    await read.of("media", BUDGET_SECONDS - 0.1)
    assert listing.lists == 1
    await read.of("shop", 1.0)
    await read.of("media", BUDGET_SECONDS)
    assert listing.lists == 3


async def test_a_list_that_failed_is_requested_again() -> None:
    listing = Listing(failures=1)
    read = budgets(listing)
    results = await asyncio.gather(*(read.of("media", 0.0) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in results] == [ClusterUnavailable] * 3
    assert (await read.of("media", 1.0)).selectors == {}
    assert listing.lists == 2


async def test_a_caller_that_is_cancelled_does_not_end_the_list_of_another() -> None:
    read = budgets(Listing())
    first, second = (asyncio.create_task(read.of("media", 0.0)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).selectors == {}


async def test_a_selector_of_a_megabyte_is_not_kept() -> None:
    long = {"matchLabels": {f"key-{number}": "x" * 60 for number in range(1000)}}
    found = await budgets(Listing({"metadata": {"name": "other"}, "spec": {"selector": long}})).of("media", 0)
    assert found.selectors == {"other": {}}
