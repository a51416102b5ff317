"""Reports the figures of the cluster benchmark: names in the JSON, texts and targets."""

from collections.abc import Sequence

from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Spread
from claimq_bench.on_cluster import deaths, peers, reaction, scale_downs
from claimq_bench.on_cluster.crowd import Rest
from claimq_bench.on_cluster.scaling import CLAIMQ, TARGET, Run
from claimq_bench.scaling_study.scenarios import KEDA


def report_reaction(report: Report, found: reaction.Found) -> None:
    report.of_rounds(
        "enqueue_to_scale_p50_s",
        "enqueue to workers asked for",
        Spread.of(found.to_scale),
        unit="s",
        most=1.0,
        limit="one pass of the operator and the API server's time for a patch, both on a busy machine",
    )
    report.of_rounds(
        "enqueue_to_claim_p50_s",
        "enqueue to the first claim",
        Spread.of(found.to_claim),
        unit="s",
        most=2.0,
        limit="the start of a pod: the kubelet starts the app when it has listed the sidecar, once a second",
    )
    if found.to_zero:
        report.of_rounds(
            "done_to_zero_p50_s", "done to no workers (idleAfter 1s)", Spread.of(found.to_zero), unit="s"
        )
    for name, says in peers.FROM_ZERO:
        report.note(f"to compare: {name}: {says}")


def report_deaths(report: Report, found: deaths.Found) -> None:
    if not found.killed:
        report.note(
            "app, sidecar and pod are not killed: that needs a cluster of our own (unset KUBE_CONTEXT)"
        )
    else:
        report.of_rounds(
            "sidecar_image_idle_rss_mb",
            "resident memory of an idle sidecar of the image",
            Spread.of(found.idle_rss_mb),
            unit="MB",
            most=40,
            limit="Python itself and its modules",
        )
    listing = "the kubelet's listing of containers, once a second"
    says = {
        "app": ("SIGKILL to the app", 1.0, "the sidecar's end of the session"),
        "sidecar": ("SIGKILL to the sidecar", deaths.EXPIRY, listing),
        "pod": ("SIGKILL to app and sidecar", deaths.EXPIRY, listing),
    }
    for kind, took in found.killed.items():
        name, most, limit = says[kind]
        spread = Spread.of(took)
        report.of_rounds(f"{kind}_kill_to_reclaim_p50_s", name, spread, unit="s", most=most, limit=limit)
    report.of_rounds(
        "pod_force_delete_to_reclaim_p50_s",
        "kubectl delete --grace-period=0 --force",
        Spread.of(found.deleted),
        unit="s",
    )
    plain = "a lease that is not renewed, for comparison"
    report.add(Figure("plain_lease_to_reclaim_s", plain, found.plain, "s"))
    for peer, took_so_long in peers.AFTER_A_KILL:
        report.note(f"to compare, defaults after kill -9 on one machine: {peer}: {took_so_long}")


def report_scale_downs(report: Report, found: scale_downs.Found) -> None:
    count = len(found.took)
    says = f"workers with an item that were stopped in {count} scale-downs"
    report.add(Figure("scale_down_busy_stopped", says, found.busy_stopped, most=0))
    says = "that a ReplicaSet would have stopped by age"
    report.add(Figure("scale_down_busy_newest", says, found.newest_busy))
    report.of_rounds(
        "scale_down_p50_s", "manifest changed to idle workers ending", Spread.of(found.took), unit="s"
    )


def report_scaling(report: Report, runs: Sequence[Run]) -> None:
    """The figures of all traces."""
    ours = [run for run in runs if run.scaler == CLAIMQ]
    keda = [run for run in runs if run.scaler == KEDA]
    says = f"claimq: share started within {TARGET:.0f} s, worst trace"
    report.add(Figure("cluster_share_within_target", says, min(run.share for run in ours), least=0.99))
    report.add(
        Figure(
            "cluster_pod_seconds_vs_keda_default",
            "claimq's pod-seconds by those of KEDA's defaults",
            sum(run.pod_seconds for run in ours) / sum(run.pod_seconds for run in keda),
            most=0.6,
            limit="the workers' own items, where they are most of the time",
        )
    )
    says = "claimq: busy workers stopped while one was idle"
    report.add(Figure("cluster_busy_stopped", says, sum(run.busy_stopped for run in ours), most=0))


def report_run(report: Report, run: Run) -> None:
    """One trace with one scaler, beside what the simulator says for it."""
    what = "_".join((run.trace.replace("-", "_"), *run.scaler.lower().split()))
    report.note(
        f"{run.trace}, {run.scaler}: {len(run.attempts)} items, pods take {run.start:.1f} s to start; "
        f"simulated: {run.predicted.share:.1%} in time, p99 {run.predicted.wait_p99:.1f} s"
    )
    report.add(Figure(f"cluster_{what}_share", "share started within the target", run.share))
    report.add(Figure(f"cluster_{what}_wait_p99_s", "wait, p99", run.wait_p99, "s"))
    report.add(
        Figure(f"cluster_{what}_first_claim_s", "first item, from zero to its start", run.first_claim, "s")
    )
    report.add(Figure(f"cluster_{what}_pod_seconds", "pod-seconds", run.pod_seconds, "s"))
    ratio = run.pod_seconds / run.predicted.pod_seconds
    report.add(Figure(f"cluster_{what}_pod_seconds_vs_simulated", "pod-seconds by those simulated", ratio))
    report.add(
        Figure(f"cluster_{what}_busy_stopped", "busy workers stopped while one was idle", run.busy_stopped)
    )


def report_wake(report: Report, queues: int, took: list[float]) -> None:
    name, says = f"enqueue_to_scale_{queues}_queues_p50_s", f"enqueue to workers asked for, {queues} queues"
    report.of_rounds(name, says, Spread.of(took), unit="s")


def report_rest(report: Report, found: Rest) -> None:
    what = f"{found.queues}_queues" if found.queues > 1 else "1_queue"
    report.heading(f"The operator with {what.replace('_', ' ')} at rest, {found.seconds:.0f} s")
    report.add(Figure(f"settled_{what}_s", "from creating them to all Ready", found.settled, "s"))
    report.of_rounds(
        f"operator_rss_mb_{what}",
        "resident memory",
        found.rss,
        unit="MB",
        most=250.0,
        limit="a connection and four tasks for each queue that waits for its first item",
    )
    report.add(Figure(f"operator_cpu_share_{what}", "processor time, of one core", found.cpu, most=0.5))
    lag = found.histogram("claimq_pass_lag_seconds")
    report.add(Figure(f"pass_lag_{what}_s", "how late a pass begins, p95", lag.quantile(0.95), "s"))
    report.add(Figure(f"pass_lag_{what}_p99_s", "p99", lag.quantile(0.99), "s", most=1.0))
    report.add(Figure(f"pass_lag_{what}_mean_s", "on average", lag.mean, "s"))
    report.add(Figure(f"pass_lag_{what}_max_s", "none later than", lag.highest(), "s"))
    took = found.histogram("claimq_pass_duration_seconds")
    report.add(Figure(f"pass_time_{what}_p95_s", "how long a pass takes, p95", took.quantile(0.95), "s"))
    report.add(Figure(f"pass_time_{what}_mean_s", "on average", took.mean, "s"))
    report.add(Figure(f"passes_per_second_{what}", "passes a second", found.passes))
    report.add(
        Figure(f"api_requests_per_minute_idle_{what}", "requests to the API server a minute", found.requests)
    )
    if found.requests_audited is not None:
        name = f"api_requests_per_minute_idle_{what}_audited"
        report.add(Figure(name, "the same by its audit log, watches too", found.requests_audited))
