"""What a response of the app means for its items."""

from datetime import UTC, datetime

import pytest

from claimq.handler_verdicts import Closing
from claimq_sidecar.push.decisions import Decision, NoResponse, Response, decide, decide_without

DATE = "Tue, 24 Nov 2026 08:00:00 GMT"
LATER = "Tue, 24 Nov 2026 08:00:30 GMT"
NOW = datetime(2026, 11, 24, 8, 0, 10, tzinfo=UTC)


def response(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> Response:
    return Response(status, headers or {}, body)


def decided(given: Response, *, retries_client_errors: bool = False) -> Decision:
    return decide(given, NOW, retries_client_errors=retries_client_errors)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_2xx_means_done(status: int) -> None:
    assert decided(response(status, b"result")) == Decision("done")


@pytest.mark.parametrize(
    ("status", "headers", "delay", "close"),
    [
        (429, {"retry-after": "7"}, 7.0, Closing.QUEUE),
        (503, {"retry-after": " 7 "}, 7.0, Closing.QUEUE),
        (429, {}, 1.0, None),
        (429, {"retry-after": "soon"}, 1.0, None),
        (503, {"retry-after": LATER, "date": DATE}, 30.0, Closing.QUEUE),
        (503, {"retry-after": DATE, "date": LATER}, 0.0, None),
        (503, {"retry-after": LATER}, 20.0, Closing.QUEUE),
        (503, {"retry-after": LATER, "date": "today"}, 20.0, Closing.QUEUE),
        (429, {"retry-after": DATE}, 0.0, None),
        (429, {"retry-after": "0"}, 0.0, None),
        (429, {"retry-after": "86400"}, 3600.0, Closing.QUEUE),
        (429, {"retry-after": "9" * 5000}, 3600.0, Closing.QUEUE),
        (429, {"retry-after": LATER.replace("2026", "9" * 20), "date": DATE}, 1.0, None),
    ],
)
def test_a_busy_app_gets_the_item_later_and_no_other_before(
    status: int, headers: dict[str, str], delay: float, close: Closing | None
) -> None:
    error = f"the app responded with status {status}: quota"
    expected = Decision("later", error, "quota", delay=delay, pause=delay, close=close)
    assert decided(response(status, b"quota", headers)) == expected


@pytest.mark.parametrize(
    ("header", "close"), [("none", None), (" Queue ", Closing.QUEUE), ("queue", Closing.QUEUE)]
)
@pytest.mark.parametrize("verdict", [{}, {"claimq-verdict": "later"}])
def test_a_header_names_what_a_busy_app_closes(
    verdict: dict[str, str], header: str, close: Closing | None
) -> None:
    headers = {**verdict, "claimq-close": header, "retry-after": "7"}
    decision = decided(response(503, headers=headers))
    assert (decision.verb, decision.delay, decision.close) == ("later", 7.0, close)


@pytest.mark.parametrize("unit", ["client", "key"])
def test_what_one_client_or_key_may_not_says_nothing_of_other_requests(unit: str) -> None:
    decision = decided(response(429, headers={"claimq-close": unit, "retry-after": "7"}))
    assert (decision.delay, decision.close, decision.pause) == (7.0, Closing(unit), None)


def test_without_its_header_the_verdict_later_closes_nothing() -> None:
    assert decided(response(503, headers={"claimq-verdict": "later", "retry-after": "7"})).close is None


def test_what_an_app_cannot_close_is_a_failure_that_names_the_known_ones() -> None:
    decision = decided(response(429, headers={"claimq-close": "world", "retry-after": "7"}))
    assert (decision.verb, decision.close, decision.permanent) == ("fail", None, False)
    assert decision.error.endswith("; its header claimq-close is not one of none, queue, client, key")


def test_another_5xx_means_fail_with_the_beginning_of_the_body() -> None:
    assert decided(response(503)) == Decision("fail", "the app responded with status 503")
    long = decided(response(500, b"out of disk \xff\n" + b"x" * 5000))
    assert long.error == "the app responded with status 500: out of disk \ufffd " + "x" * 136
    assert long.detail.startswith("out of disk \ufffd\nxxx")
    assert len(long.detail) == 2000
    assert decided(response(500, headers={"retry-after": "5"})).delay == 5.0


def test_4xx_means_a_permanent_failure_unless_it_is_to_be_retried() -> None:
    assert decided(response(422, b"no url")) == Decision(
        "fail", "the app responded with status 422: no url", "no url", permanent=True
    )
    assert not decided(response(404), retries_client_errors=True).permanent
    assert decided(response(429), retries_client_errors=False).verb == "later"


def test_a_redirect_is_not_followed() -> None:
    assert decided(response(307)) == Decision(
        "fail", "the app responded with status 307; redirects are not followed"
    )


@pytest.mark.parametrize("status", [200, 429, 500])
def test_a_header_names_the_verdict_whatever_the_status_is(status: int) -> None:
    named = {
        verdict: decided(response(status, b"why", {"claimq-verdict": verdict, "retry-after": "5"}))
        for verdict in ("Done", "requeue", "later", "unclaim", "fail", "permanent")
    }
    error = f"the app responded with status {status}: why"
    assert decided(response(status, headers={"claimq-verdict": "unclaim"})) == Decision("unclaim")
    assert named == {
        "Done": Decision("done"),
        "requeue": Decision("requeue", delay=5.0),
        "later": Decision("later", delay=5.0),
        "unclaim": Decision("unclaim", pause=5.0),
        "fail": Decision("fail", error, "why", delay=5.0),
        "permanent": Decision("fail", error, "why", permanent=True),
    }


def test_an_unknown_verdict_is_a_failure_that_names_the_known_ones() -> None:
    decision = decided(response(200, headers={"claimq-verdict": "ok"}))
    assert decision.verb == "fail"
    assert not decision.permanent
    assert decision.error.endswith(
        "claimq-verdict is not one of done, fail, permanent, requeue, later, unclaim"
    )


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (NoResponse.TIMEOUT, "the app did not respond within 2.5 s"),
        (NoResponse.BROKEN, "the app closed the connection before it had responded"),
        (NoResponse.NOT_HTTP, "the response of the app is not valid HTTP/1.1"),
    ],
)
def test_no_response_means_fail(reason: NoResponse, error: str) -> None:
    assert decide_without(reason, 2.5) == Decision("fail", error)
