"""The samples of the web page: how far they reach back, and how much memory they take."""

import math
from itertools import pairwise

import pytest

from claimq_cli.web.samples import (
    MOST_BYTES,
    SPAN,
    WIDTH,
    Ring,
    Sample,
    Samples,
    mean_seconds,
    per_second,
    recent,
)


def sample(at: float, **values: float) -> Sample:
    return Sample(*([at] + [0.0] * (WIDTH - 1)))._replace(**values)


def test_a_ring_reaches_back_over_the_span_with_a_bounded_number_of_samples() -> None:
    ring = Ring(64)
    for n in range(40_000):
        ring.add(sample(2.0 * n, main=float(n)))
        assert len(ring) <= 64
    found = ring.samples()
    assert found[-1].main == 39_999
    assert SPAN * 0.9 <= found[-1].at - found[0].at <= SPAN * 1.1
    gaps = [later.at - earlier.at for earlier, later in pairwise(found)]
    assert max(gaps) <= 4 * SPAN / 64


def test_a_ring_that_is_not_full_keeps_each_sample() -> None:
    ring = Ring(64)
    for n in range(30):
        ring.add(sample(float(n)))
    assert [one.at for one in ring.samples()] == [float(n) for n in range(30)]


def test_the_latest_sample_is_there_before_it_is_old_enough_to_be_kept() -> None:
    ring = Ring(4)
    for n in (0, 100, 200, 201):
        ring.add(sample(float(n)))
    assert ring.samples()[-1].at == 201.0
    assert ring.latest == sample(201.0)


def test_a_clock_that_goes_back_begins_a_new_series() -> None:
    ring = Ring(16)
    for at in (100.0, 102.0, 50.0, 52.0):
        ring.add(sample(at))
    assert [one.at for one in ring.samples()] == [50.0, 52.0]


def test_the_memory_of_all_queues_is_bounded_and_shared() -> None:
    samples = Samples(most_bytes=200_000)
    names = [f"q{n}" for n in range(500)]
    for at in range(50):
        for name in names:
            samples.add(name, sample(float(at)))
        samples.keep_only(names)
    assert len(samples.names) == samples.most_queues < 500
    stored = sum(len(ring) for name in samples.names if (ring := samples.ring(name)))
    assert stored * WIDTH * 8 <= 200_000


def test_ten_thousand_queues_have_room() -> None:
    assert Samples(MOST_BYTES).most_queues >= 10_000


def test_samples_of_removed_queues_make_room_for_the_others() -> None:
    samples = Samples(most_bytes=3 * 4000)
    for name in "abcd":
        samples.add(name, sample(1.0))
    samples.keep_only({"d"})
    samples.add("d", sample(2.0))
    assert set(samples.names) == {"d"}


def test_a_rate_is_what_a_total_grew_by_in_a_second() -> None:
    assert per_second(sample(10.0, done_count=5), sample(20.0, done_count=25), "done_count") == 2.0
    assert per_second(sample(10.0, done_count=5), sample(20.0, done_count=1), "done_count") == 0.0
    assert per_second(sample(10.0), sample(10.0), "done_count") == 0.0


def test_the_mean_time_in_a_state_is_its_length_over_the_rate_of_those_that_left() -> None:
    steady = [sample(float(n), main=20.0, claimed_count=4.0 * n) for n in range(11)]
    found = mean_seconds(steady, "main", "claimed_count")
    assert found is not None
    assert math.isclose(found, 5.0)
    assert mean_seconds(steady[:1], "main", "claimed_count") is None


@pytest.mark.parametrize(("ages", "begin"), [((0, 30, 90, 100), 30), ((0, 30, 40, 100), 40), ((0, 10), 0)])
def test_a_recent_rate_is_over_a_minute_or_what_there_is(ages: tuple[int, ...], begin: int) -> None:
    ring = Ring(16)
    assert recent(ring.samples()) is None
    for at in ages:
        ring.add(sample(float(at)))
    ends = recent(ring.samples())
    assert ends is not None
    assert (ends[0].at, ends[1].at) == (begin, ages[-1])
