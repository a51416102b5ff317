"""The simulated queue under limits, and what claimq's rule makes of them."""

from __future__ import annotations

import pytest

from claimq.waiting.texts import read_limits
from claimq_bench.scaling_study.at_limits import gates_at_limits, keda_at_limit
from claimq_bench.simulation.limited import LimitedWorld, QueueLimits
from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import PodSettings, Victims


def world_of(
    limits: str, *, items: int = 40, took: float = 0.5, until: float = 1e6, pods: PodSettings | None = None
) -> LimitedWorld:
    """Ten pods, and items that all wait at first."""
    trace = Trace("all at first", (0.0,) * items, (took,) * items, 100.0)
    held_by = QueueLimits(read_limits(limits), until)
    world = LimitedWorld(trace, pods or PodSettings(start=0.0), held_by, seed=1, victims=Victims.IDLE)
    world.order(10)
    return world


@pytest.mark.parametrize(
    ("limits", "starts"),
    [
        ("api:rate=2/s", [0, 500, 1000, 1500, 2000]),
        ("api:rate=3/s", [0, 334, 668, 1002, 1336]),
        ("api:rate=2/s,burst=3", [0, 0, 0, 500, 1000]),
        ("api:rate=2/s;hour:rate=60/m", [0, 1000, 2000, 3000, 4000]),
        ("licences:busy=2", [0, 0, 500, 500, 1000]),
        ("api:rate=4/s;licences:busy=1", [0, 500, 1000, 1500, 2000]),
    ],
)
def test_items_start_when_all_limits_let_them(limits: str, starts: list[int]) -> None:
    world = world_of(limits)
    for tenth in range(1, 60):  # in steps, as an autoscaler looks
        world.advance(tenth / 10)
    assert list(world.tally.waits)[:5] == starts


def test_no_window_has_more_starts_than_burst_and_rate_allow() -> None:
    world = world_of("api:rate=7/s,burst=4", items=100, took=0.1)
    for second in range(30):
        world.advance(float(second))
    starts = list(world.tally.waits)
    assert len(starts) == 100
    for first, start in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= 4 + 7 * (starts[last] - start) / 1000


def test_a_look_reports_what_the_limits_let_start() -> None:
    world = world_of("api:rate=2/s,burst=3;licences:busy=3", took=1.5)
    at_first = world.limits
    world.advance(0.1)
    later = world.limits
    assert at_first is not None
    assert later is not None
    assert (at_first.startable, at_first.next_start_in, dict(at_first.by_rate)) == (3, None, {"api": 3})
    assert (later.startable, later.next_start_in, dict(later.by_rate)) == (0, 0.4, {"api": 0})


def test_lifted_limits_hold_nothing_back_from_their_end_on() -> None:
    world = world_of("api:rate=1/s", items=20, took=1.0, until=3.0)
    world.advance(3.0)
    assert world.limits is None
    world.advance(10.0)
    assert list(world.tally.waits) == [0, 1000, 2000, *[3000] * 10, *[4000] * 7]


def test_items_of_crashed_pods_count_as_in_progress_until_they_return() -> None:
    pods = PodSettings(start=0.0, crash_every=2.0, expiry=5.0)
    world = world_of("licences:busy=3", items=30, took=1.0, pods=pods)
    for tenth in range(1, 3000):
        world.advance(tenth / 10)
        assert world.busy <= 3
    assert world.tally.items_interrupted > 5
    assert world.is_over


def test_a_limit_per_client_is_refused() -> None:
    with pytest.raises(ValueError, match="api is per client, and simulated items have none"):
        QueueLimits(read_limits("api:per=client,rate=1/s"))


def test_the_rule_uses_what_limits_let_work_and_scales_as_ever_without_them() -> None:
    gates = list(gates_at_limits())
    assert [gate for gate in gates if not gate.is_passed] == []
    assert {gate.what for gate in gates} >= {"workers", "share of the limit that is not used"}


def test_keda_runs_workers_that_a_limit_holds_back() -> None:
    by_rule, by_keda = keda_at_limit()
    assert by_rule < 1.15
    assert by_keda > 2
