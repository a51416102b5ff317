"""Items whose keys are busy: claims find them in main and put them aside, and they need no worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Decision, Estimates, ScalingState, decide
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(max_replicas=100)
TWO_SECONDS = Estimates.from_json({"busySeconds": 400.0, "ended": 200})


def decided(*, held_each: int, main: int = 200, seconds: int = 60) -> Decision:
    """Two workers claim one item a second, and put so many aside. As many enter main."""
    what = scaling_input(
        main=main, busy=2, busy_workers=2, replicas=2, ready=2, oldest_age=10.0, claimed=0, held=10
    )
    state = ScalingState(estimates=TWO_SECONDS)
    decision = decide(SPEC, what, state, 0.0)
    for second in range(1, seconds):
        now = replace(what, claimed=second, held=10 + held_each * second)
        decision = decide(SPEC, now, decision.state, float(second))
    return decision


def test_items_that_claims_put_aside_are_not_scaled_for() -> None:
    decision = decided(held_each=99)
    assert decision.replicas == 2
    assert decision.reason.endswith(", since most of these items wait for their keys")
    decision = decided(held_each=0)
    assert decision.replicas is not None
    assert decision.replicas > 20
    assert "keys" not in decision.reason


@pytest.mark.parametrize(
    ("claimed", "held", "share"),
    [
        (10, 110, 1 - (1 - 0.9**10) * 10 / 11),  # ten more are claimed, and a hundred put aside
        (1, 109, 0.901),
        (0, 200, 0.9),
        (1, 9, 1.0),  # the item that was claimed is the one that its key let go
        (50, 0, 1.0),
    ],
)
def test_the_share_of_claimed_items_follows_the_last_claims(claimed: int, held: int, share: float) -> None:
    before = replace(Estimates(), claimed=0, held=10)
    assert before.after_claims(claimed, held).claimed_share == pytest.approx(share)


@pytest.mark.parametrize(("claimed", "held"), [(3, 9), (None, 200), (0, 10)])
def test_items_that_their_keys_let_go_say_nothing_of_the_others(claimed: int | None, held: int) -> None:
    """They are at the head of main, and claims that find them look at no others."""
    before = replace(Estimates(), claimed=2, held=10, claimed_share=0.2)
    assert before.after_claims(claimed, held).claimed_share == 0.2


def test_the_share_returns_when_claims_put_nothing_aside() -> None:
    estimates = replace(Estimates(), claimed=0, held=10, claimed_share=0.01)
    for claimed in range(1, 31):
        estimates = replace(estimates.after_claims(claimed, 10), claimed=claimed)
    assert estimates.claimed_share > 0.95
    assert estimates.after_claims(30, 0).claimed_share == 1.0
