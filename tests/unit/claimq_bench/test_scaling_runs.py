"""What the comparison with KEDA on a cluster counts: pod-seconds, shares, and busy workers that were stopped."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from claimq_bench.figures import Report
from claimq_bench.on_cluster import scaling
from claimq_bench.on_cluster.pod_times import PodTimes, pod_times
from claimq_bench.on_cluster.reporting import report_run, report_scaling
from claimq_bench.on_cluster.scaling import CLAIMQ, Attempt, Run
from claimq_bench.scaling_study.scenarios import KEDA, TUNED
from claimq_bench.simulation.scalers import Keda, KedaSettings
from claimq_bench.simulation.simulate import simulate
from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import PodSettings
from claimq_kubernetes.port import Json
from testkit.repository.tree import ROOT

T0 = 1_700_000_000


def at(seconds: int) -> str:
    return datetime.fromtimestamp(T0 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def state(
    name: str = "a", *, ready: int | None = None, asked: int | None = None, ended: int | None = None
) -> Json:
    """A pod that was ordered at 0, has 30 s of grace, and is in this state. `asked`: to end."""
    metadata: Json = {"name": name, "creationTimestamp": at(0)}
    if asked is not None:
        metadata |= {"deletionTimestamp": at(asked + 30), "deletionGracePeriodSeconds": 30}
    status: Json = {"conditions": []}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready)}]
        status["containerStatuses"] = [{"state": {"running": {}}}]
    if ended is not None:
        status["containerStatuses"] = [{"state": {"terminated": {"finishedAt": at(ended - 1)}}}]
        status["initContainerStatuses"] = [{"state": {"terminated": {"finishedAt": at(ended)}}}]
    return {"metadata": metadata, "status": status}


def test_a_pod_lives_from_its_order_to_the_end_of_its_last_container() -> None:
    states = [state(), state(ready=3), state(ready=3, asked=20), state(asked=20, ended=24)]
    (pod,) = pod_times(states)
    assert pod == PodTimes("a", T0, T0 + 3, T0 + 20, T0 + 24)
    assert (pod.lived(T0 + 100), pod.lived(T0 + 10)) == (24, 10)


def test_a_pod_that_still_runs_counts_until_the_end_of_the_run() -> None:
    (pod,) = pod_times([state(), state(ready=3)])
    assert (pod.ended, pod.lived(T0 + 50)) == (None, 50)


def test_a_pod_that_is_deleted_before_it_runs_ends_then() -> None:
    (pod,) = pod_times([state(), state(asked=2)])
    assert pod.lived(T0 + 500) == 32


@pytest.mark.parametrize(("second", "is_ready"), [(2, False), (3, True), (19, True), (20, False)])
def test_a_pod_is_ready_until_it_is_asked_to_end(second: int, is_ready: bool) -> None:
    (pod,) = pod_times([state(ready=3), state(asked=20, ended=24)])
    assert pod.is_ready_at(T0 + second) is is_ready


def made_run(*attempts: Attempt, pods: tuple[PodTimes, ...] = ()) -> Run:
    trace = Trace("steady", (1.0,), (2.0,), 10.0)
    predicted = simulate(trace, Keda(), PodSettings(), target_age=30.0, seed=1)
    return Run("steady", CLAIMQ, 0.0, 100.0, [], list(pods), list(attempts), 3.0, predicted, [])


def test_the_share_is_that_of_the_items_that_were_started_within_the_target() -> None:
    waits = [1.0, scaling.TARGET, scaling.TARGET + 0.1, 90.0]
    run = made_run(*(Attempt("a", 0.0, wait, wait + 2) for wait in waits))
    assert (run.share, run.wait_p99, run.first_claim) == (0.5, 90.0, 1.0)


STOPPED = PodTimes("busy", 0.0, 3.0, 20.0, 25.0)
OTHER = PodTimes("other", 0.0, 3.0, None, None)


@pytest.mark.parametrize(
    ("stopped_has", "other_has", "needless"),
    [
        ((18.0, 24.0), (5.0, 10.0), 1),  # the other one was idle
        ((18.0, 24.0), (18.0, 24.0), 0),  # both were busy
        ((18.0, 20.5), (5.0, 10.0), 0),  # perhaps it had ended its item
        ((18.0, 24.0), (20.5, 24.0), 0),  # perhaps the other one had begun
        ((5.0, 10.0), (5.0, 10.0), 0),  # both were idle
    ],
)
def test_a_busy_worker_that_is_stopped_counts_while_another_one_is_certainly_idle(
    stopped_has: tuple[float, float], other_has: tuple[float, float], needless: int
) -> None:
    attempts = [Attempt("busy", 0.0, *stopped_has), Attempt("other", 0.0, *other_has)]
    assert made_run(*attempts, pods=(STOPPED, OTHER)).busy_stopped == needless


def test_one_that_is_not_ready_or_is_ending_too_is_not_idle() -> None:
    attempts = [Attempt("busy", 0.0, 18.0, 24.0)]
    for other in (replace(OTHER, ready=None), replace(OTHER, ready=30.0), replace(OTHER, asked_to_end=19.0)):
        assert made_run(*attempts, pods=(STOPPED, other)).busy_stopped == 0


def test_keda_has_its_defaults_and_what_its_documentation_recommends() -> None:
    assert scaling.settings(KEDA) == KedaSettings(5, 30, 300, 300, max_replicas=scaling.MOST)
    assert scaling.settings(TUNED) == KedaSettings(15, 5, 60, 60, max_replicas=scaling.MOST)
    for name in (KEDA, TUNED):
        model = scaling.simulated(name)
        assert isinstance(model, Keda)
        assert model.settings == scaling.settings(name)


def test_the_file_has_the_figures_of_all_traces_which_the_docs_explain() -> None:
    ours = made_run(Attempt("a", 0.0, 1.0, 3.0), pods=(replace(OTHER, ordered=50.0),))
    theirs = replace(ours, scaler=KEDA, pods=[replace(OTHER, ordered=0.0)])
    made = Report(write=lambda _: None)
    for run in (ours, theirs):
        report_run(made, run)
    report_scaling(made, [ours, theirs])
    figures = {one.name: one.value for one in made.figures}
    named = {
        "cluster_share_within_target": 1.0,
        "cluster_pod_seconds_vs_keda_default": 0.5,
        "cluster_busy_stopped": 0,
    }
    assert {name: figures[name] for name in named} == named
    assert figures["cluster_steady_keda_default_pod_seconds"] == 100.0
    text = (ROOT / "bench" / "README.md").read_text()
    assert [name for name in named if f"`{name}`" not in text] == []
