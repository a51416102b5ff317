"""Queries for the curves of a queue, and what the replies of Prometheus mean."""

import json
import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from claimq_cli.web.curves import Curves
from claimq_cli.web.prometheus.queries import COUNT, QUERIES, NoCurves, NoData, Range, curves_in, paths

REACH = Range.of(6, 1_000_000.0)
Series = tuple[str, Sequence[tuple[float, str]]]


def matrix(label: str, *series: Series) -> bytes:
    """A reply: values of the label, each with instants and values."""
    result = [{"metric": {label: value}, "values": values} for value, values in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def replies(**changed: bytes) -> dict[str, bytes]:
    """Those to all queries: a queue with 7 waiting items all the time, unless changed."""
    items = matrix("state", ("main", [(REACH.begin + n * REACH.step, "7") for n in range(COUNT)]))
    empty = {plot: matrix(query.label) for plot, query in QUERIES.items()}
    return {**empty, "items": items, **changed}


def query_of(path: str) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(path).query).items()}


def test_instants_are_multiples_of_the_step_and_end_before_now() -> None:
    assert (REACH.step, REACH.end) == (90, 999_990)
    assert REACH.end - REACH.begin == 238 * 90
    assert (Range.of(1, 1_000_000.0).step, Range.of(24, 1_000_000.0).step) == (15, 360)


def test_a_query_is_about_one_object_and_adds_no_replicas() -> None:
    asked = {plot: query_of(path) for plot, path in paths("shop.orders.eu", REACH).items()}
    assert asked["items"] == {
        "query": 'max by (state) (claimq_queue_items{namespace="shop",name="orders.eu",state=~"main|busy|delayed"})',
        "start": str(REACH.begin),
        "end": str(REACH.end),
        "step": "90",
        "timeout": "2s",
    }
    assert asked["rates"]["query"] == (
        "max by (kind) (rate(claimq_queue_transitions_total"
        '{namespace="shop",name="orders.eu",kind=~"enqueued|done|failed"}[240s]))'
    )
    assert "[360s]" in query_of(paths("shop.orders", Range.of(24, 1e6))["rates"])["query"]


def test_a_name_cannot_leave_its_quotes() -> None:
    query = query_of(paths('shop.a"} or up{x="\\\né', REACH)["age"])["query"]
    assert r'name="a\"} or up{x=\"\\\né",state=~"main"})' in query


@pytest.mark.parametrize("name", ["orders", "orders.", ".orders"])
def test_a_queue_without_a_namespace_has_no_series(name: str) -> None:
    with pytest.raises(NoData, match="is not NAMESPACE"):
        paths(name, REACH)


def test_values_are_put_at_their_instants_with_gaps_between() -> None:
    last = [REACH.begin + n * REACH.step for n in range(COUNT - 4, COUNT)]
    main = list(zip(last, ["1", "NaN", "+Inf", "4"], strict=True))
    beside = [
        (REACH.begin - REACH.step, "9"),
        (REACH.end + REACH.step, "9"),
        (last[1] + 3.0, "5"),
        (last[2], "-1"),
    ]
    found = curves_in(replies(items=matrix("state", ("main", main), ("busy", beside))), REACH)
    assert [at for at, _ in found["items"]["main"]] == last
    assert _text(found["items"]["main"]) == ["1.0", "nan", "nan", "4.0"]
    assert _text(found["items"]["busy"]) == ["nan", "5.0", "nan", "nan"]
    assert _text(found["workers"]["ready"]) == ["nan"] * 4


def _text(points: Any) -> list[str]:
    return [str(value) for _, value in points]


def test_the_age_is_that_of_the_oldest_waiting_item() -> None:
    found = curves_in(
        replies(age=matrix("state", ("main", [(REACH.end - 90, "0"), (REACH.end, "12.5")]))), REACH
    )
    assert _text(found["age"]["age"][-2:]) == ["0.0", "12.5"]


def test_curves_reach_from_the_first_to_the_last_instant() -> None:
    main = curves_in(replies(), REACH)["items"]["main"]
    assert [main[0], main[-1], len(main)] == [(REACH.begin, 7.0), (REACH.end, 7.0), COUNT]


def test_curves_that_end_more_than_ten_minutes_ago_are_not_shown() -> None:
    def found(age: int) -> Curves:
        return curves_in(replies(items=matrix("state", ("main", [(reach.end - age, "7")]))), reach)

    reach = Range.of(1, 1_000_000.0)
    assert found(600)["items"]["main"][:1] == [(reach.end - 600, 7.0)]
    with pytest.raises(NoData, match="no data of this queue from the last 10 minutes"):
        found(615)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"<html>",
        b"[" * 100_000,
        b"null",
        b'{"status": "error", "error": "<b>"}',
        replies()["items"].replace(b"success", b"error"),
        b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": 5}}',
        matrix("state", ("unknown", [])),
        matrix("other", ("main", [])),
        matrix("state", ("main", [(1.0, "x")])),
        matrix("state", ("main", [(math.nan, "1")])),
        b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": [], "values": []}]}}',
    ],
    ids=repr,
)
def test_a_reply_that_no_prometheus_sends_gives_no_curves(reply: bytes) -> None:
    with pytest.raises(NoCurves, match=r"^the answer of Prometheus cannot be read$"):
        curves_in(replies(age=reply), REACH)
