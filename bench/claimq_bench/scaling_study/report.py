"""The comparison as Markdown tables, for the terminal and for bench/scaling.md."""

from __future__ import annotations

from collections.abc import Iterator

from claimq_bench.scaling_study.baselines import SHARE, Figures
from claimq_bench.scaling_study.scenarios import CEILING, SECONDS, TUNED_ON
from claimq_bench.scaling_study.study import Gate, Outcome, gates, rows

BEGIN, END = "<!-- made by make scaling-study: begin -->", "<!-- made by make scaling-study: end -->"


def report(found: list[Outcome], *, is_part: bool = False) -> str:
    """All tables, and the cases in which the rule loses. ``is_part``: these are not all traces."""
    required = _gates(list(gates(found, is_part=is_part)))
    parts = [_made(found), _totals(found), required, _everyone(found), _losses(found)]
    return "\n\n".join(parts)


def replaced(page: str, text: str) -> str:
    """The page with the part between the markers replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _table(columns: list[str], lines: Iterator[list[str]]) -> str:
    made = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(made + ["| " + " | ".join(line) + " |" for line in lines])


def _made(found: list[Outcome]) -> str:
    seeds = sorted({one.seed for one in found})
    shapes = len({one.shape for one in found})
    return (
        f"{shapes} shapes of arrivals, {len(seeds)} seeds ({', '.join(map(str, seeds))}; settings were chosen on "
        f"{' and '.join(map(str, TUNED_ON))}, see *Tuning*), traces of {SECONDS / 3600:.0f} h, at most 100 pods: "
        f"{len(found)} traces."
    )


def _totals(found: list[Outcome]) -> str:
    columns = [
        "scenario",
        "traces in time",
        "worst share",
        "worst p99 wait",
        "by least work",
        "by clairvoyant",
        "by KEDA default (95 %)",
        "by best KEDA setting: worst shape, worst trace",
        "by best single KEDA setting (its traces in time)",
        "busy pods stopped",
        "scalings per hour (by KEDA default)",
    ]
    lines = (
        [
            row.scenario,
            f"{row.kept} of {row.possible}",
            f"{row.worst:.1%}",
            f"{row.p99:.0f} s",
            f"{row.vs_work:.2f}",
            f"{row.vs_clairvoyant:.2f}",
            f"{row.vs_keda:.2f} ({row.vs_keda_interval[0]:.2f}-{row.vs_keda_interval[1]:.2f})",
            f"{row.vs_hindsight:.2f}, {row.vs_hindsight_trace:.2f}",
            f"{row.vs_single:.2f} ({row.single_kept})",
            f"{row.busy_stopped}",
            f"{row.scalings_per_hour:.0f} ({row.scalings_vs_keda:.1f})",
        ]
        for row in rows(found)
    )
    return _table(columns, lines)


def _gates(made: list[Gate]) -> str:
    missed = [gate for gate in made if not gate.is_passed]
    if not missed:
        return f"All {len(made)} requirements are met."
    lines = "\n".join(f"- {_gate(gate)}" for gate in missed)
    return f"{len(made) - len(missed)} of {len(made)} requirements are met. Not met:\n\n{lines}"


def _gate(gate: Gate) -> str:
    return f"{gate.scenario}: {gate.what}: {gate.found:.2f}, required at most {gate.most:.2f}"


def _everyone(found: list[Outcome]) -> str:
    """Each cell: traces in time, worst share, thousands of pod-seconds, busy pods stopped, scalings per hour."""
    names = [name for name in found[0].others.scalers if name != CEILING]

    def cells() -> Iterator[list[str]]:
        for scenario in dict.fromkeys(one.scenario for one in found):
            some = [one for one in found if one.scenario == scenario]
            all_of = [[one.ours for one in some]]
            all_of += [[one.others.scalers[name] for one in some] for name in names]
            plan = sum(one.others.clairvoyant_pod_seconds for one in some) / 1000
            work = sum(one.others.work for one in some) / 1000
            yield [scenario, *map(_cell, all_of), f"{plan:,.0f}", f"{work:,.0f}"]

    return (
        "Each cell: traces with 99 % in time · worst share · thousands of pod-seconds · busy pods stopped · scalings "
        "per hour.\n\n" + _table(["scenario", "claimq", *names, "clairvoyant", "least work"], cells())
    )


def _cell(some: list[Figures]) -> str:
    kept = sum(one.share >= SHARE for one in some)
    cost = sum(one.pod_seconds for one in some) / 1000
    stopped = sum(one.busy_stopped for one in some)
    scalings = sum(one.scalings for one in some) / len(some) * 3600 / SECONDS
    worst = min(one.share for one in some)
    return f"{kept} · {worst:.1%} · {cost:,.0f} · {stopped:,} · {scalings:.0f}"


def _losses(found: list[Outcome]) -> str:
    """Where a KEDA setting chosen for the trace is cheaper by more than a tenth, or items are late."""
    late = [one for one in found if one.others.is_possible and one.ours.share < SHARE]
    dearer = [one for one in found if (one.vs_hindsight or 0.0) > 1.1]
    lines = [f"- {one.scenario}, {one.shape}, seed {one.seed}: {one.ours.share:.1%} in time." for one in late]
    for scenario, shape in dict.fromkeys((one.scenario, one.shape) for one in dearer):
        ratios = sorted(
            one.vs_hindsight or 0.0 for one in dearer if (one.scenario, one.shape) == (scenario, shape)
        )
        traces = "1 trace costs" if len(ratios) == 1 else f"{len(ratios)} traces cost"
        span = f"{ratios[0]:.2f}" if len(ratios) == 1 else f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        lines.append(f"- {scenario}, {shape}: {traces} {span} of the best KEDA setting for the trace.")
    return "Where the rule loses:\n\n" + ("\n".join(lines) if lines else "- nowhere by more than a tenth.")
