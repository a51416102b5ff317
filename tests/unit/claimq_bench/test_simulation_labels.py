"""The simulated queue whose items have clients, keys and costs, and what claimq's rule makes of their limits."""

from __future__ import annotations

import pytest

from claimq.limits import UNBOUNDED
from claimq.waiting.texts import read_limits
from claimq_bench.scaling_study.at_labels import CASES, LabelCase, gates_of
from claimq_bench.simulation.limited import LimitedWorld, QueueLimits
from claimq_bench.simulation.mix import Mix
from claimq_bench.simulation.rule import snapshot_of
from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import PodSettings, Victims

TWO_CLIENTS = Mix(clients=(1.0, 1.0))
COSTS = Mix(costs=(3,))


def world_of(
    limits: str, mix: Mix, *, items: int = 40, pods: PodSettings | None = None, replicas: int = 10
) -> LimitedWorld:
    """Pods, and items of half a second that all wait at first."""
    trace = Trace("all at first", (0.0,) * items, (0.5,) * items, 100.0)
    held_by = QueueLimits(read_limits(limits), mix=mix)
    world = LimitedWorld(trace, pods or PodSettings(start=0.0), held_by, seed=1, victims=Victims.IDLE)
    world.order(replicas)
    return world


@pytest.mark.parametrize(
    ("limits", "mix", "starts"),
    [
        ("own:per=client,busy=2", TWO_CLIENTS, [0, 0, 0, 0, 500, 500, 500, 500, 1000]),
        ("own:per=client,rate=2/s", TWO_CLIENTS, [0, 0, 500, 500, 1000]),
        ("own:per=client,rate=2/s,burst=2", TWO_CLIENTS, [0, 0, 0, 0, 500, 500, 1000]),
        ("own:per=client,rate=2/s;all:busy=1", TWO_CLIENTS, [0, 500, 1000, 1500]),
        ("", Mix(keys=1), [0, 500, 1000, 1500]),
        ("own:per=key,busy=3", Mix(keys=1), [0, 0, 0, 500, 500, 500, 1000]),
        ("own:per=key,rate=1/s", Mix(keys=1), [0, 1000, 2000, 3000]),
        ("gpu:busy=7,unit=cost", COSTS, [0, 0, 500, 500, 1000]),
        ("api:rate=6/s,burst=6,unit=cost", COSTS, [0, 0, 500, 1000, 1500]),
        ("gpu:busy=2,unit=cost", COSTS, [0, 500, 1000]),
        ("own:per=client,busy=7,unit=cost", Mix((1.0,), costs=(3,)), [0, 0, 500, 500, 1000]),
    ],
)
def test_items_start_when_the_limits_of_what_they_belong_to_let_them(
    limits: str, mix: Mix, starts: list[int]
) -> None:
    world = world_of(limits, mix)
    for tenth in range(1, 60):  # in steps, as an autoscaler looks
        world.advance(tenth / 10)
    assert list(world.tally.waits)[: len(starts)] == starts


def test_items_of_one_key_start_in_order_and_all_of_them() -> None:
    pods = PodSettings(start=0.0, crash_every=5.0, expiry=2.0)
    world = world_of("own:per=client,busy=1", Mix(clients=(1.0,) * 3, keys=4, keyed=0.5), pods=pods)
    for tenth in range(1, 1000):
        world.advance(tenth / 10)
    assert world.is_over
    assert len(world.tally.waits) == 40
    assert world.tally.items_interrupted > 0


def test_a_snapshot_says_how_many_items_of_clients_may_start() -> None:
    world = world_of("own:per=client,busy=2", TWO_CLIENTS, replicas=0)
    world.advance(0.1)
    found = snapshot_of(world).limits
    assert found is not None
    assert (found.startable, found.clients, dict(found.by_rate)) == (4, 2, {"own": 4})
    world.order(10)
    world.advance(0.2)
    found = snapshot_of(world).limits
    assert found is not None
    assert (found.startable, found.clients) == (0, 2)
    assert found.next_start_in == 29.9  # a client at its bound is looked at again after 30 s


def test_a_snapshot_estimates_what_more_than_64_clients_may_start() -> None:
    world = world_of("own:per=client,busy=1", Mix(clients=(1.0,) * 100), items=2000, replicas=0)
    world.advance(0.1)
    found = snapshot_of(world).limits
    assert found is not None
    assert (found.startable, found.clients) == (100, 100)


def test_a_snapshot_counts_held_items_beside_main_and_one_of_each_key_as_due_soon() -> None:
    world = world_of("own:per=key,rate=6/m", Mix(keys=2), items=20)
    world.advance(1.0)
    snapshot = snapshot_of(world)
    assert (snapshot.claimable, snapshot.key_busy, snapshot.due_soon, snapshot.next_due_in) == (0, 18, 2, 9.0)
    assert snapshot.limits is not None
    assert snapshot.limits.startable == UNBOUNDED


def test_a_snapshot_divides_by_the_mean_cost() -> None:
    world = world_of("gpu:busy=12,unit=cost", COSTS, replicas=2)
    world.advance(0.1)
    found = snapshot_of(world).limits
    assert found is not None
    assert (found.startable, found.cost, dict(found.by_rate)) == (2, 3.0, {"gpu": 2})


def test_limits_by_cost_are_refused_if_all_items_cost_1() -> None:
    with pytest.raises(ValueError, match="gpu counts costs, and simulated items cost 1"):
        QueueLimits(read_limits("gpu:busy=7,unit=cost"), mix=TWO_CLIENTS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rule_orders_what_may_start_and_not_what_waits(case: LabelCase) -> None:
    assert [gate for gate in gates_of(case) if not gate.is_passed] == []
