"""The simulated comparison: a small part of it holds what the rule promises."""

from __future__ import annotations

from claimq_bench.scaling_study import (
    CLAIMQ,
    KEDA,
    SCENARIOS,
    SHARE,
    cases,
    figures,
    grid,
    rows,
    run_all,
)

SHAPES = ("batch", "flash-crowd", "sparse")


def test_the_rule_keeps_the_target_for_less_than_keda_s_defaults() -> None:
    # One-hour traces of another seed than those that the rule was tuned on; `make simulate` runs all of it.
    work = cases([21], scenarios=SCENARIOS[:4], shapes=SHAPES, seconds=3600.0, with_grid=False)
    outcomes = list(run_all(work, jobs=1))
    for one in outcomes:
        ours = one.results[CLAIMQ]
        assert ours.busy_pods_stopped == 0, one
        if one.is_possible:
            assert ours.share >= SHARE, one
    for row in rows(outcomes):
        assert row.vs_keda <= 0.6, row
    assert figures(outcomes)["sim_pod_seconds_vs_keda_default"] <= 0.6


def test_with_the_default_settings_nothing_but_the_target_is_given() -> None:
    (outcome,) = run_all(cases([1], scenarios=SCENARIOS[:1], shapes=("batch",), seconds=1800.0), jobs=1)
    assert outcome.results[KEDA].share < SHARE
    assert outcome.results[CLAIMQ].share >= SHARE
    assert len(outcome.grid) == len(list(grid())) >= 100
    assert outcome.hindsight is not None
