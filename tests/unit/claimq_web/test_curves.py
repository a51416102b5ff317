"""The curves of a queue from the samples of the page."""

from claimq_web.curves.curves import curves_of, plots_of
from claimq_web.curves.samples import WIDTH, Sample

NOTHING = Sample(*[0.0] * WIDTH)


def test_our_samples_have_three_plots() -> None:
    samples = [NOTHING._replace(at=float(at), main=5.0 + at, done_count=3.0 * at) for at in range(3)]
    assert [plot.title for plot in plots_of(curves_of(samples))] == [
        "Items", "Age of the oldest waiting item", "Items per second",
    ]  # fmt: skip
    assert [plot.axis for plot in plots_of(curves_of(samples))] == [
        ("7", "3.5", "0"), ("", "", "0 s"), ("3/s", "1.5/s", "0/s"),
    ]  # fmt: skip
    assert curves_of(samples)["items"]["main"] == [(0.0, 5.0), (1.0, 6.0), (2.0, 7.0)]
    assert curves_of(samples)["rates"]["done"] == [(1.0, 3.0), (2.0, 3.0)]
    assert plots_of(curves_of(samples[:1])) == []
