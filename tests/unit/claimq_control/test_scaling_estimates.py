"""What the scaling function learns: service time, arrival rate and start-up time, each by its formula."""

import math
from dataclasses import replace
from typing import Any

import pytest

from claimq_control.scaling import Estimates

KNOWN = Estimates(at=0.0, claimed=0, busy_seconds=200.0, ended=100.0)
"""A hundred items of two seconds have ended."""


def after(before: Estimates, now: float, **observation: Any) -> Estimates:
    given: dict[str, Any] = {
        "main": before.main,
        "busy": before.busy,
        "claimed": before.claimed,
        "ready": before.ready,
        "starting_for": (),
        "horizon": 30.0,
        **observation,
    }
    return before.after(now, **given)


@pytest.mark.parametrize(
    ("ended", "busy_seconds", "service"),
    [
        (0.0, 0.0, 4.0),  # as assumed
        (0.0, 6.0, 7.0),  # (6 + 2 x 4) / 2
        (10.0, 20.0, 28 / 12),  # the assumed time counts as two claims
        (20.0, 40.0, 44 / 21),  # as one
        (30.0, 60.0, 2.0),  # no longer
        (40.0, 80.0, 2.0),
        (100.0, 0.0, 0.001),
    ],
)
def test_the_assumed_service_time_fades_as_claims_end(
    ended: float, busy_seconds: float, service: float
) -> None:
    assert Estimates(ended=ended, busy_seconds=busy_seconds).service(4.0) == pytest.approx(service)


@pytest.mark.parametrize(
    ("recent", "recent_seconds", "service"),
    [(14.0, 56.0, 4.0), (40 / 3, 160 / 3, 4.0), (13.0, 130.0, 2.0), (20.0, 72.0, 2.0)],
)
def test_recent_claims_count_alone_when_they_took_far_longer(
    recent: float, recent_seconds: float, service: float
) -> None:
    assert replace(KNOWN, recent=recent, recent_seconds=recent_seconds).service(9.0) == service


def test_the_fast_rate_counts_when_it_is_higher_by_more_than_chance_explains() -> None:
    # The noise of one item per second over a quarter of 60 s is sqrt(1/15) = 0.258.
    assert Estimates(slow=1.0, fast=1.51).arrival_rate == 1.0
    assert Estimates(slow=1.0, fast=1.52).arrival_rate == 1.52
    assert Estimates(slow=0.0, fast=0.001).arrival_rate == 0.001
    assert Estimates(slow=1.0, fast=3.0, span=4.0).arrival_rate == 1.0  # just as much as chance explains


def test_a_slow_start_is_one_deviation_above_the_mean() -> None:
    assert Estimates(start=10.0, start_variance=9.0).slow_start == 13.0
    assert Estimates().slow_start == 13.0


@pytest.mark.parametrize(("horizon", "span"), [(15.0, 60.0), (50.0, 100.0), (2500.0, 3600.0)])
def test_the_slow_rate_averages_over_two_horizons_within_bounds(horizon: float, span: float) -> None:
    assert after(Estimates(), 0.0, horizon=horizon).span == span


def test_the_first_observation_is_only_remembered() -> None:
    starting = tuple(float(seconds) for seconds in range(20))
    first = after(Estimates(), 5.0, main=9, busy=2, claimed=7, ready=1, starting_for=starting)
    assert (first.at, first.main, first.busy, first.claimed, first.ready) == (5.0, 9, 2, 7, 1)
    assert first.starting_for == tuple(float(seconds) for seconds in range(19, 3, -1))
    assert (first.slow, first.fast, first.ended, first.arrivals) == (0.0, 0.0, 0.0, ())


@pytest.mark.parametrize(("seconds", "learns"), [(0.0, False), (-1.0, False), (60.0, True), (60.1, False)])
def test_two_observations_are_compared_if_they_are_at_most_a_minute_apart(
    seconds: float, learns: bool
) -> None:
    later = after(replace(KNOWN, arrivals=((0.0, 1),)), seconds, main=8)
    assert (later.slow > 0, later.arrivals != ()) == (learns, learns)
    assert (later.at, later.main) == (seconds, 8)


def test_arrivals_are_learned_only_between_two_known_numbers_of_claims() -> None:
    before = replace(KNOWN, arrivals=((0.0, 1),))
    for one, claimed in ((before, None), (replace(before, claimed=None), 5), (replace(before, claimed=6), 5)):
        later = after(one, 10.0, main=8, claimed=claimed)
        assert (later.slow, later.arrivals) == (0.0, ())


def test_the_rates_approach_what_arrived_per_second() -> None:
    later = after(KNOWN, 10.0, main=5, busy=3, claimed=3)
    assert later.slow == pytest.approx((1 - math.exp(-10 / 60)) * 0.8)
    assert later.fast == pytest.approx((1 - math.exp(-10 / 15)) * 0.8)
    assert later.arrivals == ((0.0, 8),)
    idle = after(later, 20.0)
    assert idle.slow == pytest.approx(later.slow * math.exp(-10 / 60))
    assert idle.arrivals == ((0.0, 8),)


def test_arrivals_are_remembered_in_groups_for_as_long_as_the_horizon() -> None:
    observation = replace(KNOWN, at=0.0)
    for now, main in ((5.0, 1), (10.0, 3), (15.0, 6), (75.0, 6), (135.0, 6)):
        observation = after(observation, now, main=main, horizon=140.0)
    assert observation.arrivals == ((0.0, 3), (10.0, 3))  # a group lasts a fourteenth of the horizon
    assert after(observation, 140.0, horizon=140.0).arrivals == ((0.0, 3), (10.0, 3))
    assert after(observation, 140.1, horizon=140.0).arrivals == ((10.0, 3),)


def test_a_group_of_arrivals_grows_for_a_fourteenth_of_the_horizon() -> None:
    observation = replace(KNOWN, at=9.5, arrivals=((-20.0, 4), (0.0, 3)))
    assert after(observation, 14.5, main=2, horizon=140.0).arrivals == ((-20.0, 4), (0.0, 5))
    assert after(replace(observation, at=10.0), 14.5, main=2, horizon=140.0).arrivals[1:] == (
        (0.0, 3),
        (10.0, 2),
    )


def test_arrivals_that_are_exactly_as_old_as_the_horizon_are_remembered() -> None:
    observation = replace(KNOWN, at=145.0, arrivals=((0.0, 3), (10.0, 4)))
    assert after(observation, 150.0, horizon=140.0).arrivals == ((10.0, 4),)


def test_items_that_vanished_are_no_arrivals() -> None:
    later = after(replace(KNOWN, main=100), 10.0, main=0)
    assert (later.slow, later.fast, later.arrivals) == (0.0, 0.0, ())


def test_more_items_in_progress_without_a_claim_end_no_claims() -> None:
    later = after(KNOWN, 10.0, busy=3)
    assert (later.ended, later.recent) == (100.0, 0.0)


def test_service_is_learned_from_the_time_in_progress_and_the_claims_that_ended() -> None:
    before = Estimates(
        at=0.0, busy=2, claimed=0, busy_seconds=10.0, ended=5.0, recent=1.0, recent_seconds=2.0
    )
    later = after(before, 10.0, busy=4, claimed=5)
    assert (later.busy_seconds, later.ended) == (
        40.0,
        8.0,
    )  # (2 + 4) / 2 in progress for 10 s; 5 - 2 have ended
    assert (later.recent_seconds, later.recent, later.unended_for) == (32.0, 4.0, 0.0)


def test_old_claims_fade_from_the_service_time() -> None:
    before = Estimates(
        at=0.0, busy=1, claimed=0, busy_seconds=598.0, ended=299.0, recent=39.0, recent_seconds=78.0
    )
    later = after(before, 10.0, busy=1, claimed=5)
    learned = (later.busy_seconds, later.ended, later.recent_seconds, later.recent)
    assert learned == pytest.approx((600.0, 300.0, 80.0, 40.0))


@pytest.mark.parametrize(
    ("unended_for", "busy_seconds"),
    [(0.0, 210.0), (-4.0, 210.0), (-3.9, 200.0)],
    ids=["new", "limit", "over"],
)
def test_items_that_do_not_end_count_up_to_three_times_the_known_service(
    unended_for: float, busy_seconds: float
) -> None:
    # Known: 2 s. The next observation adds 10 s without an end.
    before = replace(KNOWN, busy=1, unended_for=unended_for, busy_seconds=200.0)
    later = after(replace(before, ended=60.0) if unended_for == 0.0 else before, 10.0)
    assert (later.busy_seconds, later.unended_for) == (busy_seconds, unended_for + 10.0)


@pytest.mark.parametrize(("unended_for", "busy_seconds"), [(5.7, 52.0), (5.8, 42.0)])
def test_few_items_that_do_not_end_count_up_to_three_times_what_is_known(
    unended_for: float, busy_seconds: float
) -> None:
    # Nine tenths of a claim of 0 s are assumed beside the 21: three times 42 / 21.9 s is 5.75 s.
    before = replace(KNOWN, busy=1, ended=21.0, busy_seconds=42.0, unended_for=unended_for - 10.0)
    assert after(before, 10.0).busy_seconds == busy_seconds


def test_time_without_items_in_progress_is_no_time_without_an_end() -> None:
    assert after(replace(KNOWN, unended_for=9.0), 10.0).unended_for == 0.0


def test_the_start_up_time_is_learned_from_the_workers_that_started_longest_ago() -> None:
    before = Estimates(at=0.0, claimed=0, start=6.0, start_variance=4.0, starting_for=(8.0, 2.0))
    later = after(before, 4.0, ready=1)
    assert (later.start, later.starts) == (8.0, 1.0)  # it took 8 + 4 / 2 s; the first of them counts for half
    assert later.start_variance == 4.0 + 0.5 * (16.0 - 4.0)
    assert after(replace(before, ready=3), 4.0, ready=2).starts == 0.0


def test_a_start_counts_for_a_tenth_at_least_and_for_five_minutes_at_most() -> None:
    before = Estimates(at=0.0, claimed=0, start=100.0, starts=18.0, starting_for=(400.0,))
    assert after(before, 4.0, ready=1).start == 120.0
    assert after(replace(before, starts=98.0), 4.0, ready=1).start == 120.0
    assert after(replace(before, starts=3.0), 4.0, ready=1).start == 140.0


def test_what_is_stored_is_rounded() -> None:
    observation = Estimates(
        slow=1.23456, busy_seconds=2.34567, ended=3.45, start=4.567, start_variance=2.0, starts=5.67
    )
    assert observation.to_json() == {
        "arrivalRate": 1.2346,
        "busySeconds": 2.346,
        "ended": 3.5,
        "startSeconds": 4.57,
        "startDeviation": 1.41,
        "starts": 5.7,
    }


def test_what_was_stored_is_limited_when_it_is_read() -> None:
    stored = {"arrivalRate": 2, "busySeconds": 9.0, "ended": 900, "startSeconds": 900, "startDeviation": 900}
    read = Estimates.from_json({**stored, "starts": 3})
    assert (read.slow, read.fast, read.busy_seconds, read.ended) == (2.0, 2.0, 9.0, 300.0)
    assert (read.start, read.start_variance, read.starts) == (300.0, 90_000.0, 3.0)
    assert Estimates.from_json({}) == Estimates()
    assert Estimates.from_json({"busySeconds": 9.0}).busy_seconds == 0.0
    assert Estimates.from_json({"ended": 9}).busy_seconds == 0.0
    assert Estimates.from_json({"startSeconds": 20.0}).start_variance == pytest.approx(36.0)


def test_a_stored_service_time_that_no_item_can_take_is_not_believed() -> None:
    longest = Estimates.from_json({"busySeconds": 2e6, "ended": 2})
    assert (longest.busy_seconds, longest.ended) == (2e6, 2.0)
    longer = Estimates.from_json({"busySeconds": 2e6 + 1, "ended": 2})
    assert (longer.busy_seconds, longer.ended) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        *((0, 0.0), (0.5, 0.5), (1e6, 1e6), (1e6 + 0.5, 0.0), (float("nan"), 0.0), (float("inf"), 0.0)),
        *((-1, 0.0), (True, 0.0), ("1", 0.0)),
    ],
)
def test_a_stored_value_counts_if_it_is_a_usable_number(value: object, rate: float) -> None:
    assert Estimates.from_json({"arrivalRate": value}).slow == rate


@pytest.mark.parametrize(
    ("ended", "seconds"), [(0, 26 / 12), (100, 220 / (100 + 20 / 3)), (300, 2 + 20 / 300)]
)
def test_items_in_progress_count_as_half_done_until_enough_have_ended(ended: int, seconds: float) -> None:
    # Of 20 that have been in progress for a second each; those that ended took two.
    estimates = Estimates(busy_seconds=2.0 * ended + 20.0, ended=float(ended))
    assert estimates.expected_service(3.0, 20) == pytest.approx(seconds, rel=1e-3)
    assert estimates.service(3.0) >= estimates.expected_service(3.0, 20)
