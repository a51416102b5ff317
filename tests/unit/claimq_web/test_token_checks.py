"""How often tokens are checked: what an unauthenticated client can cost the API server, and what others notice."""

from __future__ import annotations

import asyncio
from collections import Counter
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Scope

from claimq_kubernetes.port import ClusterUnavailable
from claimq_web.users.budget import Rate
from claimq_web.users.login import Logins, TooManyChecks, User
from claimq_web.users.login_pages import LoginPages
from claimq_web.users.security import Guarded
from claimq_web.users.token_checks import TokenChecks


class ApiServer:
    """Accepts the token of Ann, and counts what it is asked."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked: Counter[str] = Counter()
        self.is_down = False
        self.knows = {"ann's"}
        self.answers = asyncio.Event()
        self.answers.set()

    async def review(self, token: str) -> User | None:
        self.asked[token] += 1
        await self.answers.wait()
        if self.is_down:
            raise ClusterUnavailable("away")
        return User("ann") if token in self.knows else None

    def checks(self) -> TokenChecks:
        return TokenChecks(self.review, clock=lambda: self.now)


async def refused(checks: TokenChecks, tokens: range, peer: str = "10.0.0.1") -> list[int]:
    """The seconds to wait that these unknown tokens got instead of a check."""
    found: list[int] = []
    for number in tokens:
        try:
            assert await checks(f"unknown {number}", peer) is None
        except TooManyChecks as error:
            found.append(error.retry_after)
    return found


async def test_unknown_tokens_per_peer_are_checked_up_to_a_rate() -> None:
    server = ApiServer()
    checks = server.checks()
    assert await refused(checks, range(500)) == [1] * 480
    assert server.asked.total() == 20
    server.now += 2.0
    assert len(await refused(checks, range(500, 600))) == 90
    assert server.asked.total() == 30


async def test_a_client_with_many_tokens_does_not_keep_others_out() -> None:
    server = ApiServer()
    checks = server.checks()
    await refused(checks, range(500))
    assert await checks("ann's", "10.0.0.2") == User("ann")


async def test_checks_of_unknown_tokens_leave_room_for_one_that_was_accepted() -> None:
    server = ApiServer()
    checks = server.checks()
    assert await checks("ann's", "10.0.0.2") == User("ann")
    server.now += 11.0
    server.answers.clear()  # the API server is slow
    unknown = [asyncio.create_task(checks(f"unknown {number}", "10.0.0.1")) for number in range(16)]
    await asyncio.sleep(0)
    known = asyncio.create_task(checks("ann's", "10.0.0.2"))
    with pytest.raises(TooManyChecks):
        await checks("unknown, too", "10.0.0.3")
    server.answers.set()
    assert await known == User("ann")
    assert await asyncio.gather(*unknown) == [None] * 16


async def test_the_addresses_of_one_network_of_ipv6_are_one_peer() -> None:
    server = ApiServer()
    checks = server.checks()
    for number in range(100):
        await refused(checks, range(number, number + 1), f"2001:db8::{number:x}")
    assert server.asked.total() == 20
    assert await checks("ann's", "2001:db8:0:1::1") == User("ann")


async def test_many_peers_together_have_a_limit_that_accepted_tokens_pass() -> None:
    server = ApiServer()
    checks = server.checks()
    assert await checks("ann's", "10.0.0.2")
    for number in range(1000):
        await refused(checks, range(number, number + 1), f"10.1.{number // 250}.{number % 250}")
    assert server.asked.total() == 100
    server.now += 11.0
    for number in range(1000, 2000):
        await refused(checks, range(number, number + 1), f"10.2.{number // 250}.{number % 250}")
    assert await checks("ann's", "10.0.0.2")
    assert server.asked["ann's"] == 2


@pytest.mark.parametrize("token", ["ann's", "unknown"])
async def test_an_answer_is_remembered_for_10_seconds(token: str) -> None:
    server = ApiServer()
    checks = server.checks()
    for _ in range(100):
        await checks(token, "")
    server.now += 9.0
    await checks(token, "")
    assert server.asked[token] == 1
    server.now += 2.0
    server.knows ^= {token}
    assert (await checks(token, "") is None) == (token == "ann's")
    assert server.asked[token] == 2


async def test_a_token_that_has_expired_is_checked_again() -> None:
    server = ApiServer()
    until = server.now + 5.0

    async def review(token: str) -> User | None:
        await server.review(token)
        return User("ann", expires_at=until) if server.now < until else None

    checks = TokenChecks(review, clock=lambda: server.now)
    assert await checks("ann's", "")
    server.now += 6.0
    assert await checks("ann's", "") is None


async def test_requests_with_one_token_share_a_check() -> None:
    server = ApiServer()
    checks = server.checks()
    server.answers.clear()
    waiting = [asyncio.create_task(checks("ann's", "")) for _ in range(100)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    server.answers.set()
    assert await asyncio.gather(*waiting[1:]) == [User("ann")] * 99
    assert server.asked.total() == 1


async def test_an_api_server_that_hangs_is_asked_16_times_at_once() -> None:
    server = ApiServer()
    checks = server.checks()
    server.answers.clear()
    waiting = [asyncio.create_task(checks(f"t{number}", f"10.0.0.{number}")) for number in range(16)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyChecks):
        await checks("one more", "10.0.1.1")
    server.is_down = True
    server.answers.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in found] == [ClusterUnavailable] * 16
    server.is_down = False
    assert await checks("ann's", "10.0.1.1") == User("ann")


def slow_logins() -> Logins:
    """Two checks at once, and then one in four seconds."""
    server = ApiServer()
    checks = TokenChecks(server.review, per_peer=Rate(0.25, 2), clock=lambda: server.now)
    return Logins(checks, hint="")


async def answer(app: Guarded, token: str) -> tuple[int, dict[bytes, bytes], bytes]:
    """The answer of the API to a request with this token."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        raise AssertionError

    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/api/v1/queues", "query_string": b""}
    await app({**scope, "client": ("10.0.0.1", 1), "headers": headers}, receive, send)
    return messages[0]["status"], dict(messages[0]["headers"]), messages[1]["body"]


async def test_the_api_answers_429_and_when_to_try_again() -> None:
    async def app(_: Scope, __: object, ___: object) -> None:
        raise AssertionError

    guarded = Guarded(app, ["127.0.0.1"], slow_logins())
    assert [(await answer(guarded, f"unknown {number}"))[0] for number in range(3)] == [401, 401, 429]
    _, headers, body = await answer(guarded, "unknown 4")
    assert headers[b"retry-after"] == b"4"
    assert body == b'{"message":"too many tokens are being checked; try again in 4 s"}'


async def test_the_login_page_answers_429_and_when_to_try_again() -> None:
    def page(_: Request, template: str, *, status: int, problem: str, **__: str) -> Response:
        return PlainTextResponse(f"{template}: {problem}", status)

    login = LoginPages(slow_logins(), page).routes()[0].endpoint

    async def log_in(token: str) -> Response:
        async def receive() -> Message:
            return {"type": "http.request", "body": urlencode({"token": token}).encode()}

        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": "/login",
            "query_string": b"",
            "headers": [],
        }
        response: Response = await login(Request({**scope, "client": ("10.0.0.1", 1)}, receive))
        return response

    assert [(await log_in(f"unknown {number}")).status_code for number in range(2)] == [403, 403]
    refusal = await log_in("unknown 3")
    assert (refusal.status_code, refusal.headers["retry-after"]) == (429, "4")
    problem = "Not logged in: too many tokens are being checked; try again in 4 s."
    assert bytes(refusal.body).decode() == f"login.html: {problem}"
