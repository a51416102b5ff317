"""How long a dead process waits before it is started again."""

from claimq_local.processes.restarts import Restarts


def delays(restarts: Restarts, *ran_for: float) -> list[float]:
    found = list[float]()
    for seconds in ran_for:
        restarts.add_exit(ran_for=seconds, now=100.0)
        assert restarts.retry_at == 100.0 + restarts.delay
        found.append(restarts.delay)
    return found


def test_the_first_start_is_not_delayed() -> None:
    restarts = Restarts()
    assert (restarts.delay, restarts.retry_at, restarts.exits) == (0.0, 0.0, 0)


def test_each_delay_in_a_row_is_twice_the_one_before_up_to_a_limit() -> None:
    restarts = Restarts()
    assert delays(restarts, *[0.1] * 9) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert restarts.exits == 9


def test_a_steady_run_starts_over() -> None:
    restarts = Restarts()
    assert delays(restarts, 0.1, 0.1, 9.9, 10.0, 0.1) == [0.5, 1, 2, 0.5, 1]
    assert restarts.exits == 2
