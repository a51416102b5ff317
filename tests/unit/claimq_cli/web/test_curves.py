"""The curves of a queue: those of our own samples, and those of another source up to the latest sample."""

from claimq_cli.web.curves import curves_of, plots_of, up_to_now
from claimq_cli.web.samples import WIDTH, Sample

NAN = float("nan")
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


def test_foreign_curves_end_with_the_latest_sample_and_the_rates_of_a_minute() -> None:
    samples = [
        NOTHING._replace(at=1000.0, enqueued_count=0.0),
        NOTHING._replace(at=1058.0, enqueued_count=0.0),
        NOTHING._replace(at=1060.0, enqueued_count=120.0, main=9.0, oldest_age=4.0),
    ]
    foreign = {
        "items": {"main": [(900.0, 1.0)]},
        "age": {"age": [(900.0, NAN)]},
        "rates": {"enqueued": [(900.0, 8.0)]},
        "workers": {"ready": [(900.0, 2.0)]},
    }
    found = up_to_now(foreign, samples)
    assert found["items"]["main"] == [(900.0, 1.0), (1060.0, 9.0)]
    assert found["age"]["age"][1] == (1060.0, 4.0)
    assert found["rates"]["enqueued"] == [(900.0, 8.0), (1060.0, 2.0)]
    assert found["workers"] == foreign["workers"]
    assert up_to_now(foreign, samples[-1:])["rates"] == foreign["rates"]
