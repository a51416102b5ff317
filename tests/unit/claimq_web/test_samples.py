"""The samples of the web page: how far they reach back, and how much memory they take."""

import math
from itertools import pairwise

import pytest

from claimq_web.curves.samples import (
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


def test_samples_come_as_they_are_until_a_ring_is_half_full_and_then_evenly() -> None:
    ring = Ring(6)
    for at in (0.0, 0.5, 0.5, 60.0, 69.9):
        ring.add(sample(at))
    assert [one.at for one in ring.samples()] == [0.0, 0.5, 0.5, 60.0, 69.9]
    ring.add(sample(70.0))
    assert [one.at for one in ring.samples()] == [0.0, 0.5, 0.5, 60.0, 70.0]


def test_a_half_full_ring_adds_no_sample_before_its_time() -> None:
    ring = Ring(4)
    for at in (0.0, 100.0, 124.9):
        ring.add(sample(at))
    assert (len(ring), ring.samples()[-1].at) == (2, 124.9)
    ring.add(sample(125.0))
    assert len(ring) == 3
    small = Ring(6)
    for at in (0.0, 100.0, 101.0, 102.0):
        small.add(sample(at))
    assert len(small) == 3


@pytest.mark.parametrize(("last", "left"), [(21_600, [0, 20, 21_600]), (21_601, [10, 20, 30, 21_601])])
def test_a_full_ring_loses_every_second_sample_or_one_from_over_six_hours_ago(
    last: int, left: list[int]
) -> None:
    ring = Ring(4)
    for at in (0, 10, 20, 30, last):
        ring.add(sample(float(at)))
    assert [one.at for one in ring.samples()] == left


def test_a_ring_with_less_room_keeps_its_newest_sample() -> None:
    ring = Ring(8)
    for at in (0, 10, 20, 30):
        ring.add(sample(float(at)))
    ring.fit(3)
    assert [one.at for one in ring.samples()] == [10.0, 30.0]


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


def test_fifty_queues_have_a_sample_in_half_a_minute_for_six_hours_in_48_mib() -> None:
    assert MOST_BYTES == 48 * 1024 * 1024
    samples = Samples()
    for name in range(50):
        samples.add(f"q{name}", sample(1.0))
    assert capacities(samples) == {720}


def test_a_few_queues_share_all_of_the_memory() -> None:
    samples = Samples(most_bytes=1_000_000)
    names = [f"q{n}" for n in range(20)]
    for name in names:
        samples.add(name, sample(1.0))
    samples.keep_only(names)
    (capacity,) = capacities(samples)
    assert 950_000 < 20 * (capacity * WIDTH * 8 + 1024) <= 1_000_000


def test_each_new_queue_gets_an_equal_share_of_the_memory() -> None:
    samples = Samples(most_bytes=50_000)
    for name in "ab":
        samples.add(name, sample(1.0))
    first, second = (ring.capacity for name in "ab" if (ring := samples.ring(name)))
    assert 45_000 < first * WIDTH * 8 <= 50_000
    assert 20_000 < second * WIDTH * 8 <= 25_000
    samples.keep_only(())
    assert not samples.names


def test_a_queue_needs_room_for_sixteen_samples() -> None:
    each = 16 * WIDTH * 8 + 1024
    assert Samples(100_000_000).most_queues == pytest.approx(100_000_000 / each, rel=0.01)
    samples = Samples(most_bytes=20 * each)
    for name in range(20):
        samples.add(f"q{name}", sample(1.0))
    samples.keep_only(samples.names)
    assert capacities(samples) == {16}


def capacities(samples: Samples) -> set[int]:
    return {ring.capacity for name in samples.names if (ring := samples.ring(name))}


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
    assert per_second(sample(10.0, done_count=5), sample(11.0, done_count=8), "done_count") == 3.0
    assert per_second(sample(10.0), sample(10.0), "done_count") == 0.0


def test_the_mean_time_in_a_state_is_its_length_over_the_rate_of_those_that_left() -> None:
    steady = [sample(float(n), main=20.0, claimed_count=4.0 * n) for n in range(11)]
    found = mean_seconds(steady, "main")
    assert found is not None
    assert math.isclose(found, 5.0)
    assert mean_seconds(steady[:1], "main") is None
    assert mean_seconds([], "main") is None
    once = [sample(0.0, main=3.0), sample(2.0, main=3.0, claimed_count=1.0)]
    assert mean_seconds(once, "main") == 6.0


@pytest.mark.parametrize(
    ("ages", "begin"), [((0, 30, 90, 100), 30), ((0, 30, 40, 100), 40), ((0, 30, 41, 100), 30), ((0, 10), 0)]
)
def test_a_recent_rate_is_over_a_minute_or_what_there_is(ages: tuple[int, ...], begin: int) -> None:
    ring = Ring(16)
    assert recent(ring.samples()) is recent([sample(1.0)]) is None
    for at in ages:
        ring.add(sample(float(at)))
    ends = recent(ring.samples())
    assert ends is not None
    assert (ends[0].at, ends[1].at) == (begin, ages[-1])
