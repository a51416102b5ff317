"""How many requests to the app may be in progress, after what became of earlier ones."""

from claimq_sidecar.push.pace import Pace, Sent


def begin(pace: Pace, count: int = 1) -> list[Sent]:
    """Sends so many requests."""
    pace.in_progress += count
    return [pace.sent() for _ in range(count)]


def end(pace: Pace, *requests: Sent, is_done: bool = False, is_refused: bool = False) -> None:
    """The app responds to each of the requests."""
    for sent in requests:
        pace.note_response(sent, is_done=is_done, is_refused=is_refused)
        pace.in_progress -= 1


def refused(pace: Pace, count: int) -> None:
    """So many requests are in progress, and the app refuses all of them."""
    end(pace, *begin(pace, count), is_refused=True)


def test_requests_and_reserved_ones_use_the_limit() -> None:
    pace = Pace(8)
    assert (pace.allowed, pace.free) == (8, 8)
    begin(pace, 3)
    pace.reserved += 4
    assert (pace.allowed, pace.free) == (8, 1)
    pace.reserved += 4
    assert pace.free == 0


def test_requests_that_are_refused_together_halve_the_limit_once() -> None:
    pace = Pace(8)
    early, late = begin(pace, 4), begin(pace, 4)
    end(pace, *early, is_refused=True)
    assert pace.allowed == 4
    end(pace, *late, is_refused=True)
    assert pace.allowed == 4
    refused(pace, 4)
    assert pace.allowed == 2


def test_half_of_the_requests_in_progress_is_the_new_limit_and_at_least_one() -> None:
    pace = Pace(100)
    refused(pace, 7)
    assert pace.allowed == 3
    refused(pace, 1)
    assert pace.allowed == 1
    refused(pace, 1)
    assert pace.allowed == 1


def test_each_round_of_finished_requests_allows_one_more_up_to_the_first_limit() -> None:
    pace = Pace(4)
    refused(pace, 4)
    allowed: list[int] = []
    for _ in range(10):
        end(pace, *begin(pace), is_done=True)
        allowed.append(pace.allowed)
    assert allowed == [2, 3, 3, 3, 4, 4, 4, 4, 4, 4]


def test_requests_that_fail_do_not_raise_the_limit() -> None:
    pace = Pace(4)
    refused(pace, 4)
    for _ in range(10):
        end(pace, *begin(pace))
    assert pace.allowed == 2


def test_what_was_sent_before_a_refusal_does_not_raise_the_limit() -> None:
    pace = Pace(4)
    first, *others = begin(pace, 4)
    end(pace, first, is_refused=True)
    end(pace, *others, is_done=True)
    assert pace.allowed == 2


def test_a_silent_app_gets_one_request_at_a_time_until_it_responds() -> None:
    pace = Pace(8)
    for sent in begin(pace, 8):
        assert pace.note_timeout(sent)
        assert (pace.is_silent, pace.allowed) == (True, 1)
        pace.in_progress -= 1
    (sent,) = begin(pace)
    assert pace.free == 0
    end(pace, sent)
    assert (pace.is_silent, pace.free) == (False, 8)


def test_an_app_that_responds_to_other_requests_is_not_silent() -> None:
    pace = Pace(8)
    slow, quick = begin(pace, 2)
    end(pace, quick)
    assert not pace.note_timeout(slow)
    assert pace.allowed == 8


def test_an_app_that_was_silent_keeps_the_limit_of_its_refusals() -> None:
    pace = Pace(8)
    refused(pace, 8)
    (silent,) = begin(pace)
    pace.note_timeout(silent)
    pace.in_progress -= 1
    assert pace.allowed == 1
    end(pace, *begin(pace))
    assert pace.allowed == 4


def test_after_a_broken_connection_there_is_one_request_at_a_time() -> None:
    pace = Pace(4)
    for sent in begin(pace, 4):
        pace.note_broken(sent)
        pace.in_progress -= 1
    assert pace.allowed == 1
    end(pace, *begin(pace), is_done=True)
    assert pace.allowed == 2
    early, late = begin(pace, 2)
    pace.note_broken(early)
    end(pace, late, is_done=True)
    assert pace.allowed == 1, "a request that was sent before the end says nothing about the app after it"
