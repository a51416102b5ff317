"""How many workers the items ask for: deadlines, balance and what is useful, each in numbers."""

import math
from dataclasses import replace
from typing import Any

import pytest

from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Estimates, Observation, ScalingRule, ScalingState
from claimq_control.scaling.demand import Demand, demand
from claimq_control.scaling.limits import Wish, idle_after, up, window
from testkit.kubernetes.scaling_input import scaling_input

TARGET = 30.0


def learned(*, service: float = 2.0, rate: float = 0.0, start: float = 8.0) -> Estimates:
    """What a queue has learned that has run for a while, without deviations."""
    return Estimates(
        fast=rate,
        slow=rate,
        busy_seconds=service * 100,
        ended=100.0,
        start=start,
        start_variance=0.0,
        starts=9.0,
    )


def seen(main: int, replicas: int = 0, *, age: float = 0.0, **more: Any) -> Observation:
    values: dict[str, Any] = {"busy": 0, "ready": replicas, **more}
    return scaling_input(main=main, replicas=replicas, oldest_age=age, **values)


@pytest.mark.parametrize(("target", "service"), [(30.0, 3.0), (300.0, 30.0), (600.0, 30.0)])
def test_an_item_is_assumed_to_take_a_tenth_of_the_target_and_half_a_minute_at_most(
    target: float, service: float
) -> None:
    assert demand(target, seen(1), Estimates()).service == pytest.approx(service)


def test_waiting_items_start_within_17_twentieths_of_the_target() -> None:
    # 25.5 s are planned for. A new worker claims after 8 s and starts 1 + 17.5 / 2 = 9.75 items in time.
    asked = demand(TARGET, seen(600), learned())
    assert (asked.more, asked.patience) == (math.ceil(600 / 9.75), 25.5 - 8.0)
    assert demand(TARGET, seen(0, delayed_soon=600), learned()).more == math.ceil(600 / 9.75)


def test_arrivals_of_the_next_half_minute_are_planned_for() -> None:
    # In 55.5 s there are 1 + 30 x 1,000 items. The worker starts 27.75 - sqrt(27.75) of them, a new one, which
    # needs 41 s to start, 1 + 14.5 / 2 = 8.25.
    asked = demand(TARGET, seen(1, 1, busy=1), learned(rate=1000.0, start=41.0))
    assert asked.more == math.ceil((30_001 - (27.75 - math.sqrt(27.75))) / 8.25)
    assert asked.patience == 30.5 - 41.0  # the arrivals of five seconds are too many already


def test_arrivals_of_fifteen_seconds_can_be_the_first_that_are_too_many() -> None:
    # 5 workers start 76 - 9 items in 30.5 s and 101 - 10 in 40.5 s; 36 and 106 have to start by then.
    assert demand(TARGET, seen(1, 5, busy=5), learned(rate=7.0, start=26.0)).patience == 40.5 - 26.0


@pytest.mark.parametrize(("start", "more"), [(15.4, 0), (15.5, 58)])
def test_arrivals_that_can_be_ordered_for_later_need_no_worker_yet(start: float, more: int) -> None:
    # The arrivals of 5 s have to start within 30.5 s. A worker that is ordered 15 s later comes in time, or just not.
    asked = demand(TARGET, seen(1, 1, busy=1), learned(rate=100.0, start=start))
    assert (asked.more, asked.fewest) == (more, 1)


def test_items_that_are_late_for_any_new_worker_are_caught_up_with_soon() -> None:
    # In 1.25 x 8 s a new worker starts 1 + 2 / 2 = 2 items.
    asked = demand(TARGET, seen(10, age=50.0), learned())
    assert (asked.more, asked.patience) == (5, 25.5 - 50.0 - 8.0)


def test_waiting_items_have_the_ages_of_the_last_arrivals() -> None:
    # Two are 40 s old, three 30 s, five 10 s. Five are late, 2 for each new worker; ten have 15.5 s, 4.75 for each.
    estimates = replace(learned(), at=100.0, arrivals=((70.0, 3), (90.0, 5)))
    asked = demand(TARGET, seen(10, age=40.0), estimates)
    assert (asked.more, asked.patience) == (3, 25.5 - 40.0 - 8.0)


def test_a_new_worker_counts_as_soon_as_it_can_claim() -> None:
    # It needs 8 s and 11 s are left, so it starts 1 + 3 / 2 of the items.
    assert demand(TARGET, seen(5, age=14.5), learned()).more == 2


@pytest.mark.parametrize("age", [15.5, 17.0, 18.0, 40.0])
def test_items_that_are_nearly_late_or_late_are_shared_by_fewer_workers_than_items(age: float) -> None:
    # Ten seconds count, 1.25 times what a worker needs to start: it starts 1 + 2 / 2 of the items.
    assert demand(TARGET, seen(5, age=age), learned()).more == 3


def test_just_enough_workers_order_no_other_now_or_later() -> None:
    # One idle worker starts exactly one item of 100 s in 25.5 s.
    asked = demand(TARGET, seen(1, 1), learned(service=100.0))
    assert (asked.more, asked.patience) == (0, math.inf)


def test_an_age_below_zero_counts_as_zero() -> None:
    assert demand(TARGET, seen(600, age=-5.0), learned()) == demand(TARGET, seen(600), learned())


def test_items_that_are_late_already_are_for_idle_workers_one_each() -> None:
    assert demand(TARGET, seen(3, 5, age=50.0), learned(service=0.1)).fewest == 3


def test_without_items_an_order_can_wait() -> None:
    asked = demand(TARGET, seen(0, 5), learned())
    assert (asked.more, asked.balance, asked.patience) == (0, 0, math.inf)


def test_without_items_at_the_moment_the_fewest_are_for_arrivals() -> None:
    # In 55.5 s, 30 items have to start; one worker starts 1 + 27.75 - sqrt(27.75) of them.
    assert demand(TARGET, seen(0, 5), learned(rate=1.0)).fewest == 2


def test_a_busy_worker_with_long_items_starts_nothing_but_takes_nothing_away() -> None:
    # A fourth of an item is expected in 25.5 s, and the reserve is larger; a new worker starts 1.175 items.
    assert demand(TARGET, seen(1, 1, busy=1), learned(service=100.0)).more == 1


def test_claims_of_workers_that_are_gone_take_no_slots() -> None:
    assert demand(TARGET, seen(9, busy=5), learned()).more == 1


@pytest.mark.parametrize(("main", "more"), [(81, 1), (82, 2)])
def test_workers_that_are_starting_have_a_rest_of_at_least_a_second(main: int, more: int) -> None:
    # In 25.5 s the worker with a rest of 1 s starts 25.5 items, the two of unknown age (and any new one) 18.5 each.
    look = seen(main, 3, ready=0, starting_for=(8.0,))
    assert demand(TARGET, look, learned(service=1.0)).more == more


def test_the_fewest_workers_that_meet_the_deadlines_are_found() -> None:
    # One idle worker starts 1 + 12.75 - sqrt(12.75) = 10.2 items in 25.5 s, two start 22.5, three 35.
    assert [demand(TARGET, seen(main, 10), learned()).fewest for main in (10, 11, 22, 23)] == [1, 2, 2, 3]


def test_idle_workers_start_one_item_each_at_once() -> None:
    assert demand(TARGET, seen(1, 2, age=25.5), learned()).fewest == 1


def test_a_worker_that_can_claim_at_the_deadline_starts_one_item() -> None:
    # 8 s are left: the ready worker starts 1 + 4 - sqrt(4) items, each of two that need 8 s one.
    assert demand(TARGET, seen(4, 3, ready=1, age=17.5), learned()).fewest == 2


@pytest.mark.parametrize(
    ("main", "replicas", "balance"),
    [
        (120, 5, 20),  # 10 per second, 2 s each: 20 workers, and the queue is as long as it should be
        (240, 5, 28),  # 120 items too many, of 2 s each, in 30 s
        (0, 5, 15),  # three quarters of 20 at least
        (75, 5, 17),
        (82, 5, 17),  # 17.47 and 17.53: the nearest number
        (83, 5, 18),
        (120, 22, 22),  # near enough: 0.6 x sqrt(22) is more than 2
        (120, 23, 20),
    ],
)
def test_the_balance_steers_the_queue_to_four_tenths_of_the_target(
    main: int, replicas: int, balance: int
) -> None:
    assert demand(TARGET, seen(main, replicas), learned(rate=10.0)).balance == balance


def test_the_balance_counts_slots_of_workers() -> None:
    assert demand(TARGET, seen(120, 5, slots=2), learned(rate=10.0)).balance == 10


def test_one_worker_is_the_fewest_while_items_are_in_progress() -> None:
    assert demand(TARGET, seen(0, 5, busy=2), learned()).fewest == 1


def test_one_worker_is_near_enough_to_two_but_none_is_not_to_one() -> None:
    assert demand(TARGET, seen(3), learned(rate=0.3)).balance == 1
    assert demand(TARGET, seen(12, 1), learned(rate=1.0)).balance == 1
    assert demand(TARGET, seen(12, 1), learned(rate=1.0, service=2.1)).balance == 2


@pytest.mark.parametrize(
    ("rate", "main", "replicas", "balance"),
    [(0.8, 0, 2, 1), (0.8, 1, 2, 2), (0.9, 0, 2, 2), (1.0, 0, 3, 1), (1.01, 0, 3, 2)],
)
def test_one_of_two_workers_goes_if_it_would_be_idle_for_long(
    rate: float, main: int, replicas: int, balance: int
) -> None:
    # Without items the balance is 0.6 of the workers that keep up with the arrivals; of more than two, three quarters.
    assert demand(TARGET, seen(main, replicas, busy=1), learned(rate=rate)).balance == balance


def test_workers_are_useful_for_items_and_for_arrivals_while_they_start() -> None:
    look = seen(3, busy=2, delayed_soon=4)
    assert demand(TARGET, look, learned(rate=0.5)).most == 3 + 2 + 4 + 4
    assert demand(TARGET, replace(look, slots=2), learned(rate=0.5)).most == 7


@pytest.mark.parametrize(("balance", "most", "replicas"), [(4, 10, 5), (7, 10, 7), (7, 6, 6), (4, 0, 1)])
def test_the_larger_answer_counts_up_to_what_is_useful(balance: int, most: int, replicas: int) -> None:
    asked = Demand(2, 3, balance, most, service=1.0, rate=1.0, patience=1.0)
    assert asked.replicas == replicas


def test_an_old_service_time_may_be_up_to_three_times_as_long() -> None:
    assert Estimates().doubt == 1.0
    assert Estimates(unproven=600.0).doubt == pytest.approx(3 - 2 / math.e)
    asked = demand(TARGET, seen(600), replace(learned(), unproven=1e9))
    assert asked.more == math.ceil(600 / (1 + 17.5 / 6))


def test_ended_claims_remove_the_doubt() -> None:
    before = replace(learned(), at=0.0, claimed=0, unproven=100.0)
    later = before.after(10.0, main=0, busy=0, claimed=6, ready=0, starting_for=(), horizon=30.0)
    assert later.unproven == pytest.approx(110.0 / math.e)


def test_an_assumed_service_time_is_not_doubted() -> None:
    before = Estimates(at=0.0, claimed=0)
    later = before.after(10.0, main=5, busy=0, claimed=0, ready=0, starting_for=(), horizon=30.0)
    assert later.doubt == 1.0


@pytest.mark.parametrize(
    ("seconds", "starts", "may"),
    [(10.0, 1.0, False), (10.1, 1.0, True), (19.9, 1.0, True), (20.0, 1.0, False), (15.0, 0.0, False)],
)
def test_a_start_may_be_late_within_two_and_a_half_deviations(
    seconds: float, starts: float, may: bool
) -> None:
    assert Estimates(start=10.0, start_variance=16.0, starts=starts).may_start_late(seconds) is may


@pytest.mark.parametrize(
    ("rate", "start", "keep"),
    [(0.021, 1.0, 25.0), (0.02, 1.0, 25.0), (0.019, 1.0, 6.0), (0.017, 30.0, 30.0), (0.016, 30.0, 6.0)],
)
def test_the_last_worker_is_kept_for_longer_where_the_next_item_is_likely(
    rate: float, start: float, keep: float
) -> None:
    state = ScalingState(estimates=learned(rate=rate, start=start))
    assert idle_after(ScalingSpec(), state) == keep


@pytest.mark.parametrize(("start", "seconds"), [(8.0, 6.0), (24.0, 6.0), (50.0, 12.5)])
def test_the_window_is_a_quarter_of_a_start_and_six_seconds_at_least(start: float, seconds: float) -> None:
    assert window(ScalingSpec(), ScalingState(estimates=learned(start=start))) == seconds


@pytest.mark.parametrize(
    ("current", "to", "patience", "ordered"),
    [
        (10, 13, 5.1, 10),
        (10, 13, 5.0, 13),  # a sixth of the target
        (10, 14, 9.0, 14),  # more than three tenths
        (1, 2, 9.0, 1),
        (1, 3, 9.0, 3),
        (0, 1, 9.0, 1),
    ],
)
def test_a_small_step_up_waits_while_no_item_becomes_late(
    current: int, to: int, patience: float, ordered: int
) -> None:
    wish = Wish(to, ScalingRule.TARGET_AGE, "why", patience)
    spec = ScalingSpec(max_replicas=100, target_age=TARGET)
    assert up(spec, seen(50, current), ScalingState(), 100.0, wish).replicas == ordered
