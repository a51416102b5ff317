"""`make simulate`: simulates scaling settings without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from claimq.waiting.texts import read_limits
from claimq_bench.simulation.clairvoyant import Plan, clairvoyant
from claimq_bench.simulation.limited import QueueLimits
from claimq_bench.simulation.plot import check_plot, draw
from claimq_bench.simulation.recorded import read_trace
from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.scalers import Keda, KedaSettings, Knative, Scaler
from claimq_bench.simulation.simulate import Moment, Result, simulate
from claimq_bench.simulation.traces import SHAPES, Service, Trace, make_trace
from claimq_bench.simulation.world import PodSettings
from claimq_cli.commands.options.context import output_option
from claimq_cli.commands.options.option_types import Duration
from claimq_cli.output.answers import Answers
from claimq_control.manifest import ScalingSpec
from claimq_process.duration import readable_duration

_SECONDS = Duration()


@click.command("simulate")
@click.option(
    "--trace",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="CSV file with recorded arrivals: column `at` and, if known, `count` and `seconds`.",
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
    "--crash-every",
    type=_SECONDS,
    help="Mean time between two crashes of a pod; its items return after 30s.  [default: no crashes]",
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
    "--limits",
    "limits",
    default="",
    help="Limits of the queue, such as api:rate=10/s;licences:busy=7. The clairvoyant plan ignores them.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the random numbers; the same seed gives the same result.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="PNG or SVG file that gets charts of the queue and the workers; needs matplotlib.",
)
@output_option("table")
def simulate_command(
    file: Path | None,
    shape: str,
    length: float,
    service: float,
    start: float,
    crash_every: float | None,
    concurrency: int,
    target_age: float,
    max_replicas: int,
    min_replicas: int,
    items_per_replica: int | None,
    limits: str,
    seed: int,
    plot_file: Path | None,
    output: str,
) -> None:
    """Simulate a queue and the scaling of its workers.

    The table compares claimq with KEDA and a Knative-style autoscaler.
    """
    if min_replicas > max_replicas:
        raise click.UsageError("--min-replicas is larger than --max-replicas")
    if plot_file is not None:
        check_plot(plot_file)
    trace = _trace(file, shape, length, Service(service), seed)
    spec = ScalingSpec(
        target_age=target_age,
        max_replicas=max_replicas,
        min_replicas=min_replicas,
        items_per_replica=items_per_replica,
    )
    pods = PodSettings(start=start, slots=concurrency, crash_every=crash_every or None)
    runs = list(_runs(trace, _scalers(spec, pods, service), pods, target_age, seed, held_by=_held_by(limits)))
    plan = clairvoyant(trace, pods, target_age=target_age, most=max_replicas, seed=seed)
    _show(trace, [result for result, _ in runs], plan, target_age, Answers(output))
    if plot_file is not None:
        title = f"{trace.name}: {len(trace.arrivals):,} items, target {readable_duration(target_age)}"
        draw(plot_file, title, {result.scaler: moments for result, moments in runs})


def _trace(file: Path | None, shape: str, length: float, service: Service, seed: int) -> Trace:
    if file is None:
        trace = make_trace(shape, seed, seconds=length, service=service)
    else:
        try:
            trace = read_trace(file, service=service, seed=seed)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    if not trace.arrivals:
        raise click.UsageError("no items arrive in this time; choose a longer --length or another --seed")
    return trace


def _held_by(limits: str) -> QueueLimits | None:
    try:
        return QueueLimits(read_limits(limits)) if limits else None
    except ValueError as error:
        raise click.UsageError(f"--limits: {error}") from error


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


def _runs(
    trace: Trace,
    scalers: list[Scaler],
    pods: PodSettings,
    target_age: float,
    seed: int,
    *,
    held_by: QueueLimits | None,
) -> Iterator[tuple[Result, list[Moment]]]:
    """The result of each autoscaler and what it observed. Shows the progress if stderr is a terminal."""
    bar = click.progressbar(
        scalers, label="simulating", file=sys.stderr, item_show_func=lambda one: one.name if one else ""
    )
    with bar as scalers_with_progress:
        for scaler in scalers_with_progress:
            moments: list[Moment] = []
            is_woken = isinstance(scaler, Claimq)
            yield (
                simulate(
                    trace,
                    scaler,
                    pods,
                    target_age=target_age,
                    seed=seed,
                    is_woken=is_woken,
                    watch=moments,
                    held_by=held_by,
                ),
                moments,
            )


def _show(trace: Trace, results: list[Result], plan: Plan, target_age: float, answers: Answers) -> None:
    document = {
        "trace": trace.name,
        "items": len(trace.arrivals),
        "seconds": round(trace.seconds),
        "target_age": target_age,
        "least_possible_pod_seconds": results[0].work,
        "clairvoyant": asdict(plan),
        "results": [_document(one, plan) for one in results],
    }
    columns = [
        "autoscaler",
        f">within {readable_duration(target_age)}",
        ">p99 wait",
        ">pod-seconds",
        ">by least work",
        ">by clairvoyant",
        ">scalings per hour",
        ">busy pods stopped",
    ]
    lines = [_row(one, plan) for one in results]
    known = [f"{plan.share:.1%}", "-", f"{plan.pod_seconds:,.0f}"]
    lines.append(["clairvoyant", *known, f"{plan.pod_seconds / results[0].work:.2f}", "1.00", "-", "-"])
    answers.give_table(document, columns, lines)


def _document(one: Result, plan: Plan) -> dict[str, Any]:
    return asdict(one) | {
        "share": one.share,
        "by_least_work": one.pod_seconds / one.work,
        "by_clairvoyant": one.pod_seconds / plan.pod_seconds,
        "scalings_per_hour": one.scalings / one.seconds * 3600,
    }


def _row(one: Result, plan: Plan) -> list[str]:
    return [
        one.scaler,
        f"{one.share:.1%}",
        f"{one.wait_p99:,.1f} s",
        f"{one.pod_seconds:,.0f}",
        f"{one.pod_seconds / one.work:.2f}",
        f"{one.pod_seconds / plan.pod_seconds:.2f}",
        f"{one.scalings / one.seconds * 3600:,.0f}",
        f"{one.busy_pods_stopped:,}",
    ]
