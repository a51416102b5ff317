"""The simulated comparison: the stored baselines belong to the model, and a small part of the gates holds."""

from __future__ import annotations

import json
from dataclasses import replace

from claimq_bench.scaling_study import baselines
from claimq_bench.scaling_study.baselines import SHARE, Figures, compute, digest, load, name_of
from claimq_bench.scaling_study.report import BEGIN, END, replaced, report
from claimq_bench.scaling_study.scenarios import JUDGED_ON, SCENARIOS, TUNED_ON, cases, grid
from claimq_bench.scaling_study.study import figures, gates, outcomes, rows

SHAPES = ("batch", "flash-crowd", "sparse")
SOME = cases(JUDGED_ON[:1], scenarios=[SCENARIOS[0], SCENARIOS[3], SCENARIOS[7]], shapes=SHAPES)


def test_the_stored_baselines_were_made_with_the_model_as_it_is() -> None:
    # After a change of the model: make scaling-study BASELINES=1
    stored, table = load()
    assert stored == digest()
    assert set(table) == {name_of(case) for case in cases(JUDGED_ON)}


def test_a_baseline_that_is_computed_again_is_the_stored_one() -> None:
    (case,) = cases(JUDGED_ON[:1], scenarios=[SCENARIOS[6]], shapes=("sparse",))
    _, table = load()
    again = json.loads(json.dumps(compute(case).to_json()))
    assert baselines.Baseline.from_json(again, list(table[name_of(case)].scalers)) == table[name_of(case)]


def test_the_grid_has_a_hundred_settings_and_seeds_are_not_judged_twice() -> None:
    assert len(set(grid())) == len(list(grid())) >= 100
    assert not set(TUNED_ON) & set(JUDGED_ON)
    assert len(JUDGED_ON) >= 5


def test_the_rule_keeps_the_target_for_less_than_keda_s_defaults() -> None:
    found = list(outcomes(SOME, load()[1]))
    for one in found:
        assert one.others.is_possible, one
        assert one.ours.share >= SHARE, one
        assert one.ours.busy_stopped == 0, one
    for row in rows(found):
        assert row.vs_keda <= 0.6, row
    made = figures(found)
    assert made["sim_share_within_target_min"] >= SHARE
    assert made["sim_pod_seconds_vs_keda_default"] <= 0.6
    assert made["sim_busy_pods_stopped"] == 0
    assert "by best KEDA setting" in report(found)


def test_a_late_or_expensive_run_fails_its_gate() -> None:
    case = SOME[0]
    _, table = load()
    good = Figures(share=1.0, p99=1.0, pod_seconds=1.0, busy_stopped=0, scalings=1)
    for bad, what in (
        (replace(good, share=0.98), "traces that miss 99 % in time"),
        (replace(good, pod_seconds=1e6), "pod-seconds by KEDA's defaults"),
        (replace(good, busy_stopped=1), "busy pods stopped"),
        (replace(good, scalings=1000), "scalings by KEDA's defaults"),
    ):
        (one,) = [replace(made, ours=bad) for made in outcomes([case], table)]
        assert what in {gate.what for gate in gates([one]) if not gate.is_passed}


def test_a_report_replaces_what_is_between_the_markers() -> None:
    assert replaced(f"a {BEGIN} old {END} b", "new") == f"a {BEGIN}\n\nnew\n\n{END} b"


def test_of_a_part_only_what_holds_for_each_trace_is_required() -> None:
    found = list(outcomes(SOME[:1], load()[1]))
    whole, part = ({gate.what for gate in gates(found, is_part=one)} for one in (False, True))
    assert part < whole
    assert "traces that miss 99 % in time" in part
    assert "by the best KEDA setting, worst shape" not in report(found, is_part=True)
