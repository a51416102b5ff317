"""Real pods under two traces: claimq's rule, and KEDA's list scaler with its defaults and tuned, one after the other.

Each run is simulated as well, with the trace that was fed and the start-up time that was measured.
"""

import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

from claimq.model import State
from claimq_bench.meter import must
from claimq_bench.on_cluster.place import QUEUES
from claimq_bench.on_cluster.pod_times import PodTimes, pod_times
from claimq_bench.on_cluster.reaction import accounted_for
from claimq_bench.scaling_study.scenarios import KEDA, TUNED, Scenario, baselines
from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.scalers import Keda, KedaSettings, Scaler
from claimq_bench.simulation.simulate import Moment, Result, simulate
from claimq_bench.simulation.traces import Service, Trace, make_trace
from claimq_bench.simulation.world import PodSettings
from claimq_control.manifest import ScalingSpec
from clusterkit import HarnessError
from testkit.kubernetes.watching import watched
from testkit.on_cluster import keda, ledger
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import Release

CLAIMQ = "claimq"
SCALERS: tuple[str, ...] = (CLAIMQ, KEDA, TUNED)
TARGET, ITEM_SECONDS, MOST, SEED = 30.0, 2.0, 20, 14
TRACES = {"flash-crowd": 0.25, "on-off": 0.4}
"""Shape to the factor of its rate: at most some 15 workers are needed, which 2 cores can start."""
LONGEST_TAIL = 400.0
"""Seconds after the trace in which the rest of the items must be done."""
WORKER = (
    """
import time

def work(item):
    time.sleep(float(item.text))
"""
    + ledger.WORKER
)


@dataclass(frozen=True)
class Attempt:
    """One item's: when it was enqueued, and when a worker began and ended it, in Unix seconds of one clock."""

    pod: str
    enqueued: float
    began: float
    ended: float


@dataclass(frozen=True)
class Run:
    """One trace with one scaler: what happened, and what the simulator says about it. `began`: Unix seconds."""

    trace: str
    scaler: str
    began: float
    over: float
    moments: list[Moment]
    pods: list[PodTimes]
    attempts: list[Attempt]
    start: float
    predicted: Result
    predicted_moments: list[Moment]

    @cached_property
    def waits(self) -> list[float]:
        """Seconds from enqueue to start, the shortest first."""
        return sorted(one.began - one.enqueued for one in self.attempts)

    @property
    def share(self) -> float:
        """The share of the items that were started within the target."""
        return sum(wait <= TARGET for wait in self.waits) / len(self.waits)

    @property
    def wait_p99(self) -> float:
        return self.waits[min(len(self.waits) - 1, int(len(self.waits) * 0.99))]

    @property
    def pod_seconds(self) -> float:
        """From the order of each pod to its end, or to the end of the run."""
        return sum(pod.lived(self.over) for pod in self.pods)

    @property
    def first_claim(self) -> float:
        """Seconds until the first item was started, from zero."""
        return self.attempts[0].began - self.attempts[0].enqueued

    @property
    def busy_stopped(self) -> int:
        """Pods that were asked to end while they had an item and another one had none.

        Kubernetes writes that instant to the second: it counts only if both held during that whole second.
        """
        return sum(
            self._was_needless(pod, pod.asked_to_end) for pod in self.pods if pod.asked_to_end is not None
        )

    def _was_needless(self, stopped: PodTimes, at: float) -> bool:
        others = [pod for pod in self.pods if pod is not stopped and pod.is_ready_at(at)]
        was_busy = any(
            one.pod == stopped.name and one.began < at and at + 1 < one.ended for one in self.attempts
        )
        return was_busy and any(not self._has_item(pod, at) for pod in others)

    def _has_item(self, pod: PodTimes, at: float) -> bool:
        return any(one.pod == pod.name and one.began <= at + 1 and at <= one.ended for one in self.attempts)


def measure(release: Release, seconds: float) -> Generator[Run]:
    """Each trace of this length with each scaler. WrongResult if an item is lost, failed or done twice."""
    with keda.installed(release.cluster):
        for shape, scale in TRACES.items():
            trace = make_trace(shape, SEED, seconds=seconds, service=Service(ITEM_SECONDS), scale=scale)
            for scaler in SCALERS:
                yield _run(release, trace, scaler)


def _run(release: Release, trace: Trace, scaler: str) -> Run:
    name = f"{trace.name}-{SCALERS.index(scaler)}"
    selected = f"/api/v1/namespaces/{QUEUES}/pods?labelSelector=claimq.dev/queue%3D{name}"
    with queue_on(release, QUEUES, name) as queue:
        with _scaled(queue, scaler), watched(release.cluster, selected) as states:
            began = _clock()
            moments, enqueued = _feed(queue, trace)
            over = _clock()
            pods = pod_times(states)
        attempts = _attempts(queue, enqueued)
        accounted_for(queue)
        queue.cluster.kubectl("delete", "rq", name, f"--namespace={QUEUES}", timeout=150)
    start = _start_up(pods, attempts)
    watch: list[Moment] = []
    predicted = simulate(
        trace,
        simulated(scaler),
        PodSettings(start=start),
        target_age=TARGET,
        seed=SEED,
        is_woken=scaler == CLAIMQ,
        watch=watch,
    )
    return Run(
        trace.name,
        scaler,
        began,
        over,
        _with_pods(moments, pods, began),
        pods,
        attempts,
        start,
        predicted,
        watch,
    )


@contextmanager
def _scaled(queue: QueueOnCluster, scaler: str) -> Generator[None]:
    """The queue at rest with no workers, and with its autoscaler."""
    scaling: dict[str, object] = {"mode": "External", "replicas": 0}
    if scaler == CLAIMQ:
        scaling = {"targetAge": f"{TARGET:.0f}s", "minReplicas": 0, "maxReplicas": MOST}
    queue.apply(program=WORKER, seconds=0, worker={"drainTimeout": "30s"}, scaling=scaling)
    with nullcontext() if scaler == CLAIMQ else keda.scaling(queue, settings(scaler)):
        queue.wait("it rests", lambda: queue.replicas() == 0 and queue.condition("Ready").startswith("True"))
        yield


def settings(scaler: str) -> KedaSettings:
    """KEDA's, on the cluster and in the simulation: those of `make scaling-study` for such items and this target."""
    found = baselines(Scenario("on a cluster", Service(ITEM_SECONDS), start=0.0, target_age=TARGET))[scaler]()
    assert isinstance(found, Keda)
    return replace(found.settings, max_replicas=MOST)


def simulated(scaler: str) -> Scaler:
    """The simulator's model of a scaler with the same settings."""
    if scaler == CLAIMQ:
        return Claimq(ScalingSpec(max_replicas=MOST, target_age=TARGET))
    return Keda(settings(scaler), name=scaler)


def _feed(queue: QueueOnCluster, trace: Trace) -> tuple[list[Moment], dict[str, float]]:
    """Enqueues each item at its time, until all are done; one look at the queue each second. Id to when it came."""
    moments: list[Moment] = []
    enqueued: dict[str, float] = {}
    began, sent = _clock(), 0
    while True:
        now = _clock() - began
        due = sent
        while due < len(trace.arrivals) and trace.arrivals[due] <= now:
            due += 1
        if due > sent:
            came = _clock()
            made = queue.items.enqueue_many(f"{took:.3f}" for took in trace.services[sent:due]).ids
            queue.known.extend(made)
            enqueued |= dict.fromkeys(made, came)
            sent = due
        if not moments or now - moments[-1].now >= 1:
            seen = queue.items.snapshot()
            moments.append(Moment(now, seen.lengths[State.MAIN], seen.lengths[State.BUSY], 0, 0))
            if now >= trace.seconds and seen.counters["done"] >= len(trace.arrivals):
                return moments, enqueued
            if now > trace.seconds + LONGEST_TAIL:
                raise HarnessError(
                    f"{queue.name}: items are left {LONGEST_TAIL:.0f} s after the trace: {seen.lengths}"
                )
        time.sleep(0.05)


def _with_pods(moments: list[Moment], pods: list[PodTimes], began: float) -> list[Moment]:
    return [
        one._replace(
            replicas=sum(
                pod.ordered <= began + one.now and not pod.is_ending_at(began + one.now) for pod in pods
            ),
            ready=sum(pod.is_ready_at(began + one.now) for pod in pods),
        )
        for one in moments
    ]


def _attempts(queue: QueueOnCluster, enqueued: dict[str, float]) -> list[Attempt]:
    """By the workers' ledger, in the order in which the items came."""
    written = queue.ledger()
    ended = {entry.item: entry.at for entry in written.of("ended")}
    began = {entry.item: entry for entry in reversed(written.of("began"))}  # the first one counts
    must(began.keys() == enqueued.keys() == ended.keys(), f"{queue.name}: not each item was begun and ended")
    found = [Attempt(began[item].pod, at, began[item].at, ended[item]) for item, at in enqueued.items()]
    return sorted(found, key=lambda one: one.enqueued)


def _start_up(pods: list[PodTimes], attempts: list[Attempt]) -> float:
    """Seconds from the order of a pod to its first item, of those that found one waiting; the median."""
    first: dict[str, Attempt] = {}
    for one in sorted(attempts, key=lambda one: one.began):
        first.setdefault(one.pod, one)
    took = [
        first[pod.name].began - pod.ordered
        for pod in pods
        if pod.name in first and first[pod.name].enqueued <= pod.ordered + 1
    ]
    return statistics.median(took) if took else 3.0


def _clock() -> float:
    return time.time()  # noqa: TID251 - compared with the times that the API server and the workers write
