"""Traps of autoscalers that show in a run: A3, A4, A6, A11 and A13 of the table in bench/scaling.md."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.simulate import Moment, Result, simulate
from claimq_bench.simulation.traces import Service, Trace, make_trace
from claimq_bench.simulation.world import PodSettings, Victims, World
from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Estimates, ScalingState, decide
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(target_age=30.0, max_replicas=100)
KNOWN = ScalingState(
    estimates=Estimates.from_json({"busySeconds": 600.0, "ended": 300, "startSeconds": 40.0})
)
"""Items take two seconds, and a start takes forty."""


def run(
    trace: Trace,
    pods: PodSettings,
    spec: ScalingSpec = SPEC,
    state: ScalingState | None = None,
    watch: list[Moment] | None = None,
) -> Result:
    scaler = Claimq(spec, state=state or ScalingState())
    return simulate(trace, scaler, pods, target_age=spec.target_age, seed=1, is_woken=True, watch=watch)


def regular(every: float, service: float, seconds: float) -> Trace:
    """Items at regular times, all of the same length."""
    count = int(seconds / every)
    return Trace("regular", tuple(n * every for n in range(count)), (service,) * count, seconds)


def test_a3_a_step_of_items_orders_slow_starting_pods_once() -> None:
    spec = ScalingSpec(target_age=120.0, max_replicas=1000)
    step = Trace("step", (5.0,) * 600, (2.0,) * 600, 60.0)
    at_once = decide(spec, scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0), KNOWN, 0.0)
    assert at_once.replicas is not None
    assert run(step, PodSettings(start=40.0), spec, KNOWN).pods_started <= 1.2 * at_once.replicas


def test_a4_a_steady_load_between_two_numbers_does_not_flap() -> None:
    watch: list[Moment] = []
    run(regular(every=0.4, service=1.4, seconds=7200.0), PodSettings(start=8.0), watch=watch)
    numbers = [one.replicas for one in watch if 3600.0 <= one.now < 7200.0]
    changes = sum(earlier != later for earlier, later in pairwise(numbers))
    assert changes <= 6
    assert 3 <= min(numbers) <= max(numbers) <= 5


def test_a4_one_and_a_half_workers_alternate_between_one_and_two_slowly() -> None:
    watch: list[Moment] = []
    trace = make_trace("steady", 3, seconds=2400.0, service=Service(0.3))
    result = run(trace, PodSettings(start=8.0), watch=watch)
    numbers = [one.replicas for one in watch if 600.0 <= one.now < 2400.0]
    assert (min(numbers), max(numbers)) == (1, 2)
    assert sum(earlier != later for earlier, later in pairwise(numbers)) <= 40
    assert sum(numbers) <= 1.75 * len(numbers)
    assert result.wait_max < SPEC.target_age


def test_a6_an_item_that_returns_is_as_old_as_its_return() -> None:
    pods = PodSettings(start=0.0, crash_every=0.3, expiry=30.0)
    world = World(Trace("one", (0.0,), (100.0,), 200.0), pods, seed=1, victims=Victims.IDLE)
    world.order(1)
    world.advance(5.0)
    assert world.busy == 1  # its lease still runs
    world.order(0)
    world.advance(36.0)
    assert world.waiting == 1
    assert world.oldest_age is not None
    assert world.oldest_age < 6.0


def test_a11_four_times_as_long_or_short_items_still_start_in_time() -> None:
    for drift, mean in ((4.0, 1.0), (0.25, 4.0)):
        trace = make_trace("on-off", 3, seconds=2400.0, service=Service(mean, drift=drift))
        assert run(trace, PodSettings()).share >= 0.99


def test_a13_an_item_that_comes_as_the_last_pod_goes_waits_for_one_start() -> None:
    # The pod goes six seconds after the last item: a thousand items come around that moment.
    spec = replace(SPEC, idle_after=6.0)
    rng = random.Random(1)
    gaps = [rng.uniform(5.0, 9.0) for _ in range(1000)]
    arrivals = tuple(sum(gaps[: n + 1]) for n in range(1000))
    result = run(Trace("race", arrivals, (0.1,) * 1000, arrivals[-1] + 60), PodSettings(start=2.0), spec)
    assert result.started == 1000
    assert result.pods_started > 100
    assert result.wait_max <= 2.0 * 1.25 + 2.0 * 0.1 * 8 + 3.0
