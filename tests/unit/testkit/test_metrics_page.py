import math

import pytest

from testkit.programs.metrics_page import Histogram, MetricsPage

PAGE = """
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="get",code="200"} 3.0
requests_total{verb="get",code="404"} 1.0
requests_total{verb="list",code="200"} 2.0
# HELP lag_seconds Lag.
# TYPE lag_seconds histogram
lag_seconds_bucket{le="0.01"} 50.0
lag_seconds_bucket{le="0.1"} 90.0
lag_seconds_bucket{le="1.0"} 100.0
lag_seconds_bucket{le="+Inf"} 100.0
lag_seconds_count 100.0
lag_seconds_sum 5.0
"""


def test_a_total_is_over_the_series_with_these_labels() -> None:
    page = MetricsPage(PAGE)
    assert page.total("requests_total") == 6
    assert page.total("requests_total", verb="get") == 4
    assert page.total("requests_total", verb="get", code="404") == 1
    assert page.total("nothing_total") == 0


def test_a_quantile_lies_within_its_bucket() -> None:
    lag = MetricsPage(PAGE).histogram("lag_seconds")
    assert (lag.count, lag.mean) == (100, 0.05)
    assert lag.quantile(0.5) == pytest.approx(0.01)
    assert lag.quantile(0.7) == pytest.approx(0.055)
    assert lag.quantile(0.95) == pytest.approx(0.55)
    assert lag.highest() == 1.0


def test_what_was_before_a_look_counts_no_more() -> None:
    lag = MetricsPage(PAGE).histogram("lag_seconds")
    later = Histogram({0.01: 50, 0.1: 100, 1.0: 110, math.inf: 111}, 9.0).since(lag)
    assert (later.count, later.sum) == (11, 4.0)
    assert later.quantile(0.5) == pytest.approx(0.01 + 0.09 * 5.5 / 10)
    # One of them is beyond all bounds: it is unknown how far.
    assert later.quantile(1.0) == 1.0
    assert later.highest() == math.inf


def test_of_nothing_there_is_no_quantile() -> None:
    nothing = MetricsPage("").histogram("lag_seconds")
    assert math.isnan(nothing.quantile(0.5))
    assert math.isnan(nothing.mean)
    assert math.isnan(nothing.highest())
