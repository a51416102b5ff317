"""Curves on the web page."""

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
