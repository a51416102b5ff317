"""Limits of a queue: what may be given, and the three forms of a limit."""

import re
from collections.abc import Callable

import pytest

from claimq import Limit, Policy
from claimq.limits import UNBOUNDED, LimitsNow, load_limits, shown_limits, stored_limits
from claimq.waiting.texts import read_limits

LIMITS = (Limit("api", rate="100/s", burst=200), Limit("slow", rate="5/h"), Limit("licences", busy=20))


def test_people_write_and_read_limits_in_one_form() -> None:
    text = "api:rate=100/s,burst=200;slow:rate=5/h;licences:busy=20"
    assert read_limits(text) == LIMITS
    assert shown_limits(LIMITS) == text
    assert read_limits(";") == ()


def test_the_config_has_milliseconds_and_a_burst_of_at_least_one() -> None:
    stored = "api queue rate 100 1000 200;slow queue rate 5 3600000 1;licences queue busy 20"
    assert stored_limits(LIMITS) == stored
    assert stored_limits(load_limits(stored)) == stored


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Limit("api", rate="0/s"), "limits: api: rate is '0/s'; give a rate such as 100/s"),
        (lambda: Limit("api", rate="1000001/s"), "1 to 1000000 items"),
        (lambda: Limit("api", rate="5/w"), "s, m, h or d"),
        (lambda: Limit("api", rate="5"), "such as 100/s"),
        (lambda: Limit("api", rate="1/s", burst=0), "limits: api: burst is 0; give 1 to 1,000,000"),
        (lambda: Limit("api", busy=0), "limits: api: busy is 0"),
        (lambda: Limit("api"), "api has neither rate nor busy; give one of rate and busy"),
        (lambda: Limit("api", rate="1/s", busy=1), "api has both rate and busy"),
        (lambda: Limit("api", busy=1, burst=2), "api has a burst without a rate"),
        (lambda: Limit("An API", busy=1), "the name is 'An API'; give up to 63 lower-case letters"),
        (lambda: Policy(limits=[Limit("a", busy=1), Limit("a", busy=2)]), "has the name a twice"),
        (lambda: Policy(limits=[Limit(f"l{i}", busy=1) for i in range(9)]), "has 9 limits; give at most 8"),
        (
            lambda: read_limits("api:rate"),
            "write rate=100/s, burst=200, busy=20, per=client, per=key or unit=cost",
        ),
        (lambda: read_limits("api:speed=1"), "'speed=1' of api is no setting"),
        (lambda: read_limits("api:busy=1,busy=2"), "api has busy twice"),
        (lambda: read_limits("api:busy=many"), "busy is 'many'; write a whole number"),
        (
            lambda: load_limits("api key rate"),
            "the config field limits has 'api key rate', which is no limit",
        ),
        (lambda: load_limits("api queue rate 1 7 1"), "which is no limit"),
        (lambda: load_limits("api queue rate 1 1000 1 bytes"), "limits: api: unit is 'bytes'"),
        (lambda: load_limits("api queue busy 2 bytes"), "limits: api: unit is 'bytes'"),
        (lambda: load_limits("api queue busy x"), "which is no limit"),
    ],
)
def test_a_limit_that_cannot_hold_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_limits_are_a_list_of_limits() -> None:
    with pytest.raises(TypeError, match="give a list"):
        Policy(limits="api")  # type: ignore[arg-type]  # what it refuses
    with pytest.raises(TypeError, match="give Limits"):
        Policy(limits=["api"])  # type: ignore[list-item]  # what it refuses


@pytest.mark.parametrize(
    ("limits", "clients", "startable", "slots"),
    [
        ([Limit("a", rate="10/s", per="client")], 5, 3, 5 * 10 * 2 + 2),
        ([Limit("a", rate="10/s", per="client"), Limit("b", rate="30/s")], 5, 3, 30 * 2 + 2),
        ([Limit("a", rate="10/s", per="client"), Limit("b", busy=7)], 5, 3, 7),
    ],
)
def test_limits_per_client_bound_the_slots_that_are_of_use(
    limits: list[Limit], clients: int, startable: int, slots: float
) -> None:
    assert LimitsNow(tuple(limits), startable, None, {}, clients).useful_slots(2.0, 4) == slots


def test_a_limit_per_client_is_written_and_stored_with_its_scope() -> None:
    (limit,) = read_limits("api:per=client,rate=10/s,burst=3")
    assert limit == Limit("api", rate="10/s", burst=3, per="client")
    assert str(limit) == "api:per=client,rate=10/s,burst=3"
    assert limit.stored == "api client rate 10 1000 3"
    assert load_limits(limit.stored) == (limit,)


def test_a_scope_that_no_limit_has_is_refused() -> None:
    with pytest.raises(ValueError, match="limits: api: per is 'worker'; give one of: queue, client, key"):
        Limit("api", rate="1/s", per="worker")


def test_a_limit_per_key_is_read_stored_and_bounded() -> None:
    (limit,) = read_limits("each:per=key,busy=100")
    assert (str(limit), limit.stored) == ("each:per=key,busy=100", "each key busy 100")
    with pytest.raises(ValueError, match="limits: each: busy is 101; give 1 to 100"):
        Limit("each", busy=101, per="key")


def test_a_limit_by_cost_is_written_and_stored_with_its_unit() -> None:
    (limit,) = read_limits("api:rate=10/s,burst=3,unit=cost")
    assert (limit, limit.is_by_cost) == (Limit("api", rate="10/s", burst=3, unit="cost"), True)
    assert (str(limit), limit.stored) == ("api:rate=10/s,burst=3,unit=cost", "api queue rate 10 1000 3 cost")
    assert load_limits(limit.stored) == (limit,)
    (limit,) = read_limits("api:per=key,busy=500,unit=cost")
    assert limit == Limit("api", busy=500, per="key", unit="cost")
    assert (str(limit), limit.stored) == ("api:per=key,busy=500,unit=cost", "api key busy 500 cost")
    assert load_limits(limit.stored) == (limit,)


def test_what_limits_by_cost_let_start_is_divided_by_the_mean_cost() -> None:
    limits = (Limit("tokens", rate="10/s", burst=9, unit="cost"), Limit("api", rate="100/s"))
    now = LimitsNow(limits, 3, None, cost=4.0)
    assert now.useful_slots(2.0, 5) == 10 / 4 * 2 + 2
    assert now.longest_interval == 0.4
    now = LimitsNow((Limit("slots", busy=20, unit="cost"),), 2, None, {"slots": 2}, cost=4.0)
    assert (now.useful_slots(2.0, 3), now.startable_by(now.limits[0], 3)) == (5, 2)


def test_limits_per_key_bound_neither_slots_nor_what_may_start() -> None:
    limits = read_limits("each:per=key,busy=2;calls:per=key,rate=1/h")
    now = LimitsNow(limits, UNBOUNDED, None)
    assert now.useful_slots(10, 5) > 10**8
    assert (now.holding(5), now.longest_interval) == ((), 0)
    both = LimitsNow((*limits, Limit("slots", busy=7)), 2, None)
    assert (both.useful_slots(10, 5), both.startable_by(limits[0], 5)) == (7, None)
