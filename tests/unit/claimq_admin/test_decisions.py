"""The numbers of a decision, which other users may have written."""

from typing import Any

import pytest

from claimq_admin.reads.decisions import decision_rows


def test_the_numbers_of_a_decision_are_listed() -> None:
    inputs = {"main": 1200, "oldestAge": 90.5}
    demand = {"secondsPerItem": 2.5, "secondsPerItemError": 0.1, "maxReplicas": 10}
    assert decision_rows({"inputs": inputs, "demand": demand}) == [
        ["items waiting", "1,200", ""],
        ["age of the oldest item", "90 s", ""],
        ["seconds per item", "2.5", "0.1"],
        ["maxReplicas", "10", ""],
    ]


@pytest.mark.parametrize(
    "odd", ["many", None, [1], {"a": 1}, True, 1e300, float("nan"), float("inf"), -1e16, 10**400]
)
def test_what_is_no_number_is_left_out(odd: Any) -> None:
    demand = {"arrivalsPerSecond": odd, "arrivalsPerSecondError": odd, "wanted": odd}
    assert decision_rows({"inputs": {"main": odd, "oldestAge": odd}, "demand": demand}) == []
    assert decision_rows({"inputs": odd, "demand": odd}) == []
    assert decision_rows({"demand": {"arrivalsPerSecond": 1.0}}) == []
