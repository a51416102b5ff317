"""How long a dead process waits before it is started again."""

from claimq_cli.local.backoff import LONGEST_DELAY, STEADY_AFTER, Backoff


def waits(ends: int, ran_for: float = 0.1) -> list[float]:
    backoff, found = Backoff(), list[float]()
    for _ in range(ends):
        backoff = backoff.after_end(ran_for=ran_for, now=100.0)
        found.append(backoff.retry_at - 100.0)
    return found


def test_each_wait_in_a_row_is_twice_the_one_before_up_to_a_limit() -> None:
    assert waits(9) == [0.5, 1, 2, 4, 8, 16, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]


def test_a_steady_run_begins_anew() -> None:
    tired = Backoff(ends=6)
    assert tired.after_end(ran_for=STEADY_AFTER, now=0.0) == Backoff(1, 0.5)
    assert tired.after_end(ran_for=STEADY_AFTER - 0.1, now=0.0).ends == 7


def test_thousands_of_ends_are_no_problem() -> None:
    assert Backoff(ends=100_000).after_end(ran_for=0.0, now=0.0).retry_at == LONGEST_DELAY
