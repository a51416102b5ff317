"""Curves on the web page."""

import time

import pytest

from claimq_web.curves.plot import plot_of, spark_path
from claimq_web.curves.samples import WIDTH, Sample


def test_a_curve_has_its_peak_and_its_latest_value() -> None:
    points = [(float(n), 1000.0 if n == 5555 else 1.0) for n in range(10_000)]
    plot = plot_of("Items", [("main", points)], "{:.0f}".format)
    assert plot is not None
    assert plot.axis == ("1000", "500", "0")
    assert len(plot.stretches) == 60
    assert [one.text.partition(": ")[2] for one in plot.stretches if "1000" in one.text] == ["main 1000"]
    assert plot.curves[0].now == "1"
    assert plot.curves[0].path.count("L") < 300
    assert " 0.0L" in plot.curves[0].path
    assert "main now 1; highest 1000" in plot.summary
    assert (plot.begin, plot.end) == (clock(0.0), clock(9999.0))
    assert f"Items from {clock(0.0)} to {clock(9999.0)}: main now 1" in plot.summary


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


@pytest.mark.parametrize(("count", "drawn"), [(240, 240), (241, 121), (480, 240)])
def test_a_curve_of_more_than_240_points_is_thinned(count: int, drawn: int) -> None:
    plot = plot_of("Items", [("main", [(float(n), 1.0) for n in range(count)])], str)
    assert plot is not None
    assert plot.curves[0].path.count("L") == drawn - 1


@pytest.mark.parametrize(("count", "drawn"), [(60, 60), (61, 31), (120, 60)])
def test_a_small_curve_of_more_than_60_samples_is_thinned(count: int, drawn: int) -> None:
    samples = [Sample(*[0.0] * WIDTH)._replace(at=float(n)) for n in range(count)]
    assert spark_path(samples, 10, 10).count("L") == drawn - 1


def test_two_samples_of_the_same_instant_are_a_curve() -> None:
    plot = plot_of("Items", [("main", [(5.0, 1.0), (5.0, 2.0)])], str)
    assert plot is not None
    assert plot.curves[0].path == "M0.0 80.0L0.0 0.0"


def test_one_sample_is_no_curve() -> None:
    assert plot_of("Items", [("main", [(1.0, 1.0)])], str) is None
    assert spark_path([Sample(*[0.0] * WIDTH)], 10, 10) == ""


def test_a_pointer_finds_each_time_in_one_stretch_with_the_values_of_all_curves() -> None:
    instants = [0.0, 10.0, 20.0, 40.0]
    curves = [
        ("main", [(at, at / 10) for at in instants]),
        ("busy", [(at, 1.0) for at in instants]),
    ]
    plot = plot_of("Items", curves, "{:.0f}".format)
    assert plot is not None
    assert [(one.x, one.width) for one in plot.stretches] == [(0, 80), (80, 160), (240, 240), (480, 160)]
    at = time.strftime("%H:%M:%S", time.localtime(20.0))
    assert plot.stretches[2].text == f"{at}: main 2, busy 1"
    assert (plot.begin, plot.end) == (clock(0.0), clock(40.0))
    assert [(one.label, one.colour) for one in plot.curves] == [("main", 1), ("busy", 2)]


def test_the_axis_of_nothing_has_no_numbers_but_zero() -> None:
    plot = plot_of("Items", [("main", [(0.0, 0.0), (1.0, 0.0)])], "{:.0f}".format)
    assert plot is not None
    assert plot.axis == ("", "", "0")


def test_a_plot_of_half_a_day_has_dates() -> None:
    begin, end = 86_400.0, 129_600.0
    plot = plot_of("Items", [("main", [(begin, 4.0), (end, 2.0)])], str)
    assert plot is not None
    assert plot.begin == time.strftime("%Y-%m-%d %H:%M", time.localtime(begin))
    shorter = plot_of("Items", [("main", [(begin, 4.0), (end - 1.0, 2.0)])], str)
    assert shorter is not None
    assert shorter.begin == clock(begin)


def test_two_samples_are_a_curve_from_the_first_to_the_last_time() -> None:
    first, last = 86_400.0, 90_000.0
    plot = plot_of("Items", [("main", [(first, 4.0), (last, 2.0)])], str)
    assert plot is not None
    assert plot.curves[0].path == "M0.0 0.0L640.0 80.0"
    assert (plot.begin, plot.end) == tuple(
        time.strftime("%H:%M:%S", time.localtime(at)) for at in (first, last)
    )
    samples = [Sample(*[0.0] * WIDTH)._replace(at=at, main=main) for at, main in ((1.0, 0.0), (2.0, 3.0))]
    assert spark_path(samples, 10, 10) == "M0.0 10.0L10.0 0.0"
