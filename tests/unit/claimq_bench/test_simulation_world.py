"""The simulated queue and pods: nothing is lost, time is right, pods are paid for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from claimq_bench.simulation.recorded import read_trace
from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.scalers import Fixed, Keda, KedaSettings, Knative
from claimq_bench.simulation.simulate import Result, simulate
from claimq_bench.simulation.traces import SHAPES, Service, Trace, make_trace
from claimq_bench.simulation.world import PodSettings, Victims, World
from claimq_control.manifest import ScalingSpec

SPEC = ScalingSpec(target_age=30.0, max_replicas=100)
EXACT = PodSettings(start=0.0)


def trace(*items: tuple[float, float], seconds: float = 100.0) -> Trace:
    return Trace("made", tuple(at for at, _ in items), tuple(took for _, took in items), seconds)


def run(
    of: Trace, scaler: Fixed | Claimq | Keda | Knative, pods: PodSettings = EXACT, seed: int = 1
) -> Result:
    return simulate(of, scaler, pods, target_age=30.0, seed=seed, is_woken=isinstance(scaler, Claimq))


def test_items_wait_until_a_worker_is_free_and_start_in_order() -> None:
    world = World(trace((0.0, 10.0), (1.0, 10.0), (2.0, 1.0)), EXACT, seed=1, victims=Victims.IDLE)
    world.order(1)
    world.advance(50.0)
    assert list(world.tally.waits) == [0, 9_000, 18_000]
    assert world.is_over


def test_a_pod_works_on_as_many_items_at_once_as_it_has_slots() -> None:
    world = World(trace(*[(0.0, 10.0)] * 5), PodSettings(start=0.0, slots=2), seed=1, victims=Victims.IDLE)
    world.order(1)
    world.advance(50.0)
    assert list(world.tally.waits) == [0, 0, 10_000, 10_000, 20_000]


def test_pods_are_paid_for_from_their_order_to_their_end() -> None:
    world = World(trace((0.0, 1.0)), PodSettings(start=8.0), seed=1, victims=Victims.IDLE)
    world.order(2)
    world.advance(30.0)
    world.order(1)
    world.advance(50.0)
    assert world.finish().pod_ticks == 30_000 + 50_000


def test_a_pod_claims_only_after_its_start() -> None:
    world = World(trace((0.0, 1.0)), PodSettings(start=8.0), seed=1, victims=Victims.IDLE)
    world.order(1)
    world.advance(60.0)
    assert 6_000 <= world.tally.waits[0] < 20_000


def test_idle_pods_are_taken_before_busy_ones_and_busy_ones_finish() -> None:
    world = World(trace((0.0, 20.0)), EXACT, seed=1, victims=Victims.IDLE)
    world.order(3)
    world.advance(5.0)
    world.order(1)
    assert world.busy_pods == 1
    assert world.tally.busy_pods_stopped == 0
    world.order(0)
    world.advance(60.0)
    assert world.tally.busy_pods_stopped == 1
    assert world.is_over


def test_what_a_stopped_pod_holds_after_its_grace_is_done_by_another() -> None:
    world = World(trace((0.0, 50.0)), PodSettings(start=0.0, grace=10.0), seed=1, victims=Victims.NEWEST)
    world.order(1)
    world.advance(5.0)
    world.order(0)
    world.advance(20.0)
    assert world.tally.items_interrupted == 1
    assert world.waiting == 1
    world.order(1)
    world.advance(100.0)
    assert world.is_over
    assert len(world.tally.waits) == 1  # the first start counts


def test_a_pod_that_crashes_starts_again_and_its_item_returns_after_the_expiry() -> None:
    pods = PodSettings(start=8.0, crash_every=20.0, expiry=30.0)
    world = World(trace((0.0, 200.0), seconds=2000.0), pods, seed=1, victims=Victims.IDLE)
    world.order(1)
    while not world.tally.items_interrupted:
        world.advance(world.now + 0.5)
    crashed_at = world.now
    assert (world.replicas, world.ready, world.busy, world.waiting) == (1, 0, 1, 0)
    world.advance(crashed_at + 31.0)
    assert world.claimed + world.waiting == 2
    assert len(world.tally.waits) == 1


def test_every_item_is_done_although_pods_crash() -> None:
    of = make_trace("on-off", 3, seconds=1200.0)
    result = run(of, Claimq(SPEC), PodSettings(crash_every=120.0))
    assert result.started == result.items
    assert result.items_interrupted > 10
    assert result.busy_pods_stopped == 0


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_shape_is_the_same_with_the_same_seed_and_differs_with_another(shape: str) -> None:
    first, again, other = (make_trace(shape, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.arrivals != other.arrivals
    assert list(first.arrivals) == sorted(first.arrivals)
    assert all(0 <= at <= first.seconds for at in first.arrivals)


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("name", ["claimq", "keda", "knative", "fixed"])
def test_every_item_is_started_and_done_under_every_autoscaler(shape: str, name: str) -> None:
    of = make_trace(shape, 3, seconds=1200.0)
    made: dict[str, Fixed | Claimq | Keda | Knative] = {
        "claimq": Claimq(SPEC),
        "keda": Keda(),
        "knative": Knative(),
        "fixed": Fixed(20),
    }
    result = run(of, made[name], PodSettings())
    assert result.started == result.items == len(of.arrivals)
    assert result.pod_seconds >= result.work * 0.99


def test_service_times_have_the_mean_that_was_asked_for() -> None:
    of = make_trace("steady", 1, service=Service(3.0, variation=1.0))
    assert of.work / len(of.services) == pytest.approx(3.0, rel=0.03)


def test_drift_changes_the_service_time_at_half_of_the_run() -> None:
    of = make_trace("steady", 1, service=Service(1.0, variation=0.1, drift=4.0))
    half = sum(at < of.seconds / 2 for at in of.arrivals)
    before, after = of.services[:half], of.services[half:]
    assert sum(after) / len(after) == pytest.approx(4 * sum(before) / len(before), rel=0.05)


# The other autoscalers, by what their documentation and source say --------------------------------------------------


@dataclass(frozen=True)
class AQueue:
    now: float
    waiting: int
    replicas: int
    busy: int = 0
    starting: tuple[float, ...] = ()
    oldest_age: float | None = None
    claimed: int = 0
    limits: None = None

    @property
    def ready(self) -> int:
        return self.replicas

    @property
    def busy_pods(self) -> int:
        return min(self.busy, self.replicas)


view = AQueue


def test_keda_starts_the_first_pod_at_a_poll() -> None:
    keda = Keda()
    assert keda.decide(view(0.0, 0, 0)) == 0
    assert keda.decide(view(15.0, 100, 0)) == 0
    assert keda.decide(view(30.0, 100, 0)) == 1


def test_the_pod_autoscaler_may_double_or_add_four_in_fifteen_seconds() -> None:
    keda = Keda()
    steps, replicas = [], 1
    for now in range(0, 75, 15):
        replicas = keda.decide(view(float(now), 1000, replicas)) or 0
        steps.append(replicas)
    assert steps == [5, 10, 20, 40, 80]


def test_the_pod_autoscaler_ignores_a_deviation_of_a_tenth() -> None:
    assert Keda().decide(view(0.0, 54, 10)) == 10
    assert Keda().decide(view(0.0, 56, 10)) == 12


def test_the_pod_autoscaler_goes_down_to_the_highest_number_of_five_minutes() -> None:
    keda, replicas, seen = Keda(KedaSettings(cooldown=1000.0)), 20, dict[int, int]()
    for now in range(0, 331, 15):
        replicas = keda.decide(view(float(now), 100 if now == 0 else 0, replicas, busy=replicas)) or 0
        seen[now] = replicas
    assert seen[300] == 20
    assert seen[315] == 1


def test_keda_goes_to_zero_after_the_cooldown() -> None:
    keda = Keda(KedaSettings(cooldown=60.0, window=0.0))
    assert keda.decide(view(0.0, 1, 1)) == 1
    assert keda.decide(view(30.0, 0, 1)) == 1
    assert keda.decide(view(60.0, 0, 1)) == 0


def test_knative_s_panic_doubles_what_is_ready_and_does_not_go_down() -> None:
    knative, replicas = Knative(), 1
    for now in range(0, 8, 2):
        replicas = knative.decide(view(float(now), 70, replicas)) or 0
    assert replicas == 100
    assert knative.decide(view(20.0, 0, replicas)) == 100


# A trace of one's own -----------------------------------------------------------------------------------------------


def test_a_trace_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("at,seconds\n100,2.5\n90,\n")
    of = read_trace(path, service=Service(4.0, variation=0.01))
    assert of.arrivals == (0.0, 10.0)
    assert of.services[0] == pytest.approx(4.0, rel=0.1)
    assert of.services[1] == 2.5


def test_a_recorded_trace_has_comments_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "recorded.csv"
    path.write_text("# queue: mails\nat,count,seconds\n# a gap\n100,3,2.5\n101,0,\n102,,1\n")
    of = read_trace(path)
    assert of.arrivals == (0.0, 0.0, 0.0, 2.0)
    assert of.services == (2.5, 2.5, 2.5, 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when\n1\n", "the first line names the columns"),
        ("at\n1\nx\n", "line 3: at is 'x'"),
        ("at\n-1\n", "line 2: at is '-1'"),
        ("at,seconds\n1,nan\n", "line 2: seconds is 'nan'"),
        ("at\n", "there is no item"),
        ("# made\nat,count\n1,1\n2,1.5\n", "line 4: count is '1.5'; write a whole number"),
        ("at,count\n1,-1\n", "line 2: count is '-1'"),
        ("at,count\n1,9000000\n", "more than 5,000,000 items"),
    ],
)
def test_a_trace_with_a_mistake_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_trace(path)
