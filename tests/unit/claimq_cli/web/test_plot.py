"""Curves on the web page."""

import time

from claimq_cli.web.plot import plot_of, spark_path
from claimq_cli.web.samples import WIDTH, Sample


def test_a_curve_has_its_peak_and_its_latest_value() -> None:
    points = [(float(n), 1000.0 if n == 5555 else 1.0) for n in range(10_000)]
    plot = plot_of("Items", [("main", points)], "{:.0f}".format)
    assert plot is not None
    assert plot.highest == "1000"
    assert plot.curves[0].now == "1"
    assert plot.curves[0].path.count("L") < 300
    assert " 0.0L" in plot.curves[0].path
    assert "main now 1; highest 1000" in plot.summary


def test_one_sample_is_no_curve() -> None:
    assert plot_of("Items", [("main", [(1.0, 1.0)])], str) is None
    assert spark_path([Sample(*[0.0] * WIDTH)], 10, 10) == ""


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
