"""Decisions of a drain."""

from claimq_sidecar.claims.drain import Drain, Step


def test_before_a_drain_the_sidecar_serves() -> None:
    drain = Drain(timeout=25.0)
    assert drain.step(100.0, 0) is Step.SERVE
    assert drain.left(100.0) == 25.0


def test_a_drain_waits_until_nothing_is_in_flight() -> None:
    drain = Drain(timeout=25.0).begin(100.0)
    assert drain.step(101.0, 2) is Step.WAIT
    assert drain.step(101.0, 0) is Step.DRAINED
    assert drain.step(125.0, 2) is Step.DRAINED


def test_with_a_signal_it_leaves_at_the_end() -> None:
    drain = Drain(timeout=25.0).signalled(100.0)
    assert drain.step(101.0, 2) is Step.WAIT
    assert drain.step(101.0, 0) is Step.LEAVE
    assert drain.step(125.0, 2) is Step.LEAVE


def test_the_time_runs_from_the_first_request() -> None:
    drain = Drain(timeout=25.0).begin(100.0).begin(110.0)
    assert drain.left(110.0) == 15.0
    assert drain.signalled(124.0).step(124.9, 1) is Step.WAIT
    assert drain.signalled(124.0).step(125.0, 1) is Step.LEAVE


def test_a_second_signal_leaves_at_once() -> None:
    drain = Drain(timeout=25.0).signalled(100.0).signalled(100.1)
    assert drain.step(100.1, 5) is Step.LEAVE


def test_a_signal_in_a_pod_stops_the_sidecar_at_once() -> None:
    assert Drain(timeout=25.0).signalled(100.0, at_once=True).step(100.0, 5) is Step.LEAVE


def test_no_time_at_all_leaves_at_once() -> None:
    assert Drain(timeout=0.0).signalled(100.0).step(100.0, 5) is Step.LEAVE
    assert Drain(timeout=0.0).begin(100.0).left(100.0) == 0.0


def test_an_app_that_is_restarted_gets_claims_again_unless_the_pod_ends() -> None:
    asked = Drain(timeout=25.0).begin(100.0, final=False)
    assert asked.step(101.0, 1) is Step.WAIT
    assert asked.revoked().step(101.0, 1) is Step.SERVE
    assert asked.begin(101.0).revoked().step(102.0, 1) is Step.WAIT
    assert asked.signalled(101.0).revoked().step(102.0, 0) is Step.LEAVE
    assert Drain(timeout=25.0).begin(100.0).begin(101.0, final=False).revoked().started == 100.0
