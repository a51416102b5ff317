"""`claimq simulate`: simulates scaling settings without a cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from claimq_cli.commands.option_types import Duration
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.output.answers import Answers, rounded
from claimq_cli.simulation.rule import Claimq
from claimq_cli.simulation.scalers import Keda, KedaSettings, Knative, Scaler
from claimq_cli.simulation.simulate import Result, simulate
from claimq_cli.simulation.traces import SHAPES, Service, Trace, make_trace, read_trace
from claimq_cli.simulation.world import PodSettings
from claimq_spec.manifest import ScalingSpec

_SECONDS = Duration()


@click.command("simulate")
@click.option(
    "--trace",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="CSV file with recorded arrivals: column `at` and, if known, `seconds`.",
)
@click.option(
    "--shape",
    type=click.Choice(list(SHAPES)),
    default="on-off",
    show_default=True,
    help="Shape of the generated arrivals.",
)
@click.option(
    "--length", type=_SECONDS, default="2h", show_default=True, help="Duration of the generated arrivals."
)
@click.option(
    "--service", type=_SECONDS, default="2s", show_default=True, help="Mean time to process an item."
)
@click.option(
    "--start",
    type=_SECONDS,
    default="8s",
    show_default=True,
    help="Time from the creation of a pod to its first claim.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Items that a pod processes at a time.",
)
@click.option(
    "--target-age",
    type=_SECONDS,
    default="30s",
    show_default=True,
    help="See the field of this name in the manifest.",
)
@click.option(
    "--max-replicas",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="See the field of this name in the manifest.",
)
@click.option(
    "--min-replicas",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="See the field of this name in the manifest.",
)
@click.option(
    "--items-per-replica",
    type=click.IntRange(1, 1_000_000),
    help="See the field of this name in the manifest.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the random numbers; the same seed gives the same result.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def simulate_command(
    file: Path | None,
    shape: str,
    length: float,
    service: float,
    start: float,
    concurrency: int,
    target_age: float,
    max_replicas: int,
    min_replicas: int,
    items_per_replica: int | None,
    seed: int,
    output: str,
) -> None:
    """Simulate a queue and the scaling of its workers.

    The table compares claimq with KEDA and a Knative-style autoscaler.

    \b
    claimq simulate --shape batch --service 2s --target-age 30s
    claimq simulate --trace arrivals.csv --target-age 1m --max-replicas 20
    """
    if min_replicas > max_replicas:
        raise CommandError("--min-replicas is larger than --max-replicas", USAGE)
    items = Service(service)
    trace = (
        make_trace(shape, seed, seconds=length, service=items)
        if file is None
        else read_trace(file, service=items, seed=seed)
    )
    if not trace.arrivals:
        raise CommandError("no items arrive in this time; choose a longer --length or another --seed", USAGE)
    spec = ScalingSpec(
        target_age=target_age,
        max_replicas=max_replicas,
        min_replicas=min_replicas,
        items_per_replica=items_per_replica,
    )
    pods = PodSettings(start=start, slots=concurrency)
    results = [_run(trace, scaler, pods, target_age, seed) for scaler in _scalers(spec, pods, service)]
    _show(trace, results, target_age, Answers(output))


def _scalers(spec: ScalingSpec, pods: PodSettings, service: float) -> list[Scaler]:
    most, least = spec.max_replicas, spec.min_replicas
    fitting = max(1, round(spec.target_age / max(service, 0.001) * pods.slots))
    default = KedaSettings(min_replicas=least, max_replicas=most)
    tuned = KedaSettings(fitting, polling=5, cooldown=60, window=60, min_replicas=least, max_replicas=most)
    return [
        Claimq(spec, slots=pods.slots),
        Keda(default, name="KEDA, defaults"),
        Keda(tuned, name=f"KEDA, listLength {fitting}"),
        Knative(slots=pods.slots, max_replicas=most),
    ]


def _run(trace: Trace, scaler: Scaler, pods: PodSettings, target_age: float, seed: int) -> Result:
    is_woken = isinstance(scaler, Claimq)
    return simulate(trace, scaler, pods, target_age=target_age, seed=seed, is_woken=is_woken)


def _show(trace: Trace, results: list[Result], target_age: float, answers: Answers) -> None:
    document = {
        "trace": trace.name,
        "items": len(trace.arrivals),
        "seconds": round(trace.seconds),
        "target_age": target_age,
        "results": [asdict(one) | {"share": one.share} for one in results],
    }
    columns = [
        "autoscaler",
        f">within {rounded(target_age)}",
        ">p99 wait",
        ">pod-seconds",
        ">least possible",
        ">pods started",
        ">scalings",
        ">busy pods stopped",
    ]
    answers.give_table(document, columns, [_row(one) for one in results])


def _row(one: Result) -> list[str]:
    return [
        one.scaler,
        f"{one.share:.1%}",
        f"{one.wait_p99:,.1f} s",
        f"{one.pod_seconds:,.0f}",
        f"{one.work:,.0f}",
        f"{one.pods_started:,}",
        f"{one.scalings:,}",
        f"{one.busy_pods_stopped:,}",
    ]
