"""Delays between attempts."""

import random
from itertools import islice

from claimq.concurrency.backoff import Backoff


def test_delays_double_up_to_the_longest() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_reset_starts_again_at_the_first_delay() -> None:
    backoff = Backoff(1.0, 5.0)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 1.0


def test_each_iteration_starts_at_the_first_delay() -> None:
    backoff = Backoff(0.5, 5.0)
    backoff.next()
    assert list(islice(backoff, 3)) == [0.5, 1.0, 2.0]
    assert list(islice(backoff, 2)) == [0.5, 1.0]
    assert backoff.next() == 1.0


def test_jitter_only_shortens_delays() -> None:
    backoff = Backoff(1.0, 8.0, jitter=0.5)
    for longest in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert longest / 2 <= backoff.next() <= longest


def test_the_first_delay_is_never_above_the_longest() -> None:
    assert Backoff(10.0, 2.0).next() == 2.0


def test_a_program_that_has_seeded_random_keeps_its_numbers() -> None:
    random.seed(7)
    expected = random.random()
    random.seed(7)
    Backoff(1.0, 8.0, jitter=0.5).next()
    assert random.random() == expected
