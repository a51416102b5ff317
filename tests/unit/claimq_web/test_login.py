"""Users, tokens and sessions of the web page."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from claimq_admin.errors import CommandError
from claimq_web.users import login
from claimq_web.users.login import Logins, SessionAddress, User, by_tokens, read_users
from claimq_web.users.security import Guarded

TOKEN = "0123456789abcdef0123"


def of_ann() -> Logins:
    return Logins(by_tokens({TOKEN: "ann"}), hint="ask Ann")


async def logged_in(logins: Logins, token: str = TOKEN) -> tuple[SessionAddress, str]:
    begun = await logins.log_in(token)
    assert begun
    return begun


def test_users_are_read_with_comments_and_blank_lines(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"# for reading\n\nann {TOKEN}\nbob {TOKEN[::-1]}\n")
    users.chmod(0o600)
    assert read_users(users) == {TOKEN: "ann", TOKEN[::-1]: "bob"}


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        ("ann\n", 0o600, "line 1: write NAME TOKEN"),
        ("\nann short\n", 0o600, "line 2: the token has less than 20 characters"),
        (f"ann {TOKEN}\nbob {TOKEN}\n", 0o600, "line 2: another user has the same token"),
        (f"{'a' * 101} {TOKEN}\n", 0o600, "line 1: the name has more than 100 characters"),
        ("# no user\n", 0o600, "has no user"),
        (f"ann {TOKEN}\n", 0o640, "run: chmod 600"),
        (None, 0o600, "cannot be read from"),
        ("\xff", 0o600, "it is not text"),
    ],
)
def test_a_wrong_file_of_users_is_refused_without_its_tokens(
    tmp_path: Path, content: str | None, mode: int, problem: str
) -> None:
    users = tmp_path / "users"
    if content is not None:
        users.write_text(content, "latin-1")
        users.chmod(mode)
    with pytest.raises(CommandError, match=problem) as caught:
        read_users(users)
    assert TOKEN not in str(caught.value)


async def test_a_session_ends_when_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("claimq_web.users.login.time.monotonic", lambda: now)
    logins = of_ann()
    cookie = await logged_in(logins)
    for _ in range(3):
        now += 11 * 3600
        session = logins.session(*cookie)
        assert session
        assert session.user == "ann"
    now += 13 * 3600
    assert logins.session(*cookie) is None


async def test_the_sessions_that_were_not_used_for_the_longest_time_end_first() -> None:
    tokens = [f"{number:020}" for number in range(1001)]
    logins = Logins(by_tokens({token: f"user {token}" for token in tokens}), hint="")
    cookies = [await logged_in(logins, token) for token in tokens[:1000]]
    assert logins.session(*cookies[0])
    cookies.append(await logged_in(logins, tokens[1000]))
    assert [bool(logins.session(*cookies[n])) for n in (0, 1, 2, 1000)] == [True, False, True, True]


def test_notices_are_shown_once_and_bounded() -> None:
    session = login.Session(User("ann"))
    for number in range(12):
        session.note(str(number))
    assert session.take_notices() == [str(number) for number in range(2, 12)]
    assert session.take_notices() == []


async def test_a_session_ends_with_the_token_of_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("claimq_web.users.login.time.monotonic", lambda: now)

    async def authenticate(token: str, _: str) -> User | None:
        return User("ann", expires_at=1060.0) if token == TOKEN else None

    logins = Logins(authenticate, hint="")
    cookie = await logged_in(logins)
    now = 1059.0
    assert logins.session(*cookie)
    now = 1061.0
    assert logins.session(*cookie) is None
    assert await logins.log_in("another") is None


PROXY = login.ProxyHeaders(
    login.networks(["127.0.0.1", "10.1.0.0/16", "::1"]),
    group_header="x-forwarded-groups",
    group_prefix="idp:",
)


@pytest.mark.parametrize(
    ("peer", "is_trusted"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("::1", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("", False),
    ],
)
def test_only_the_named_proxies_are_trusted(peer: str, is_trusted: bool) -> None:
    assert PROXY.trusts(peer) is is_trusted


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ({"x-forwarded-user": " ann "}, User("ann")),
        ({"x-forwarded-user": "ann", "x-forwarded-groups": "dev, ,ops"}, User("ann", ("idp:dev", "idp:ops"))),
        ({"x-forwarded-user": ""}, None),
        ({"x-forwarded-groups": "dev"}, None),
        ({"x-forwarded-user": "system:admin"}, None),
    ],
)
def test_the_proxy_names_the_user(headers: dict[str, str], user: User | None) -> None:
    assert PROXY.user(headers) == user


def test_a_proxy_cannot_name_groups_of_kubernetes() -> None:
    proxy = login.ProxyHeaders(
        login.networks(["127.0.0.1"]), group_header="x-forwarded-groups", user_prefix="idp:"
    )
    user = proxy.user({"x-forwarded-user": "system:admin", "x-forwarded-groups": "dev,system:masters"})
    assert user == User("idp:system:admin", ("dev",))


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8", "", "10.0.0.0/33"])
def test_a_proxy_is_named_by_an_address(text: str) -> None:
    with pytest.raises(CommandError, match="--trust-proxy"):
        login.networks([text])


def test_groups_are_not_believed_without_their_header_being_configured() -> None:
    proxy = login.ProxyHeaders(login.networks(["127.0.0.1"]))
    assert proxy.user({"x-forwarded-user": "ann", "x-forwarded-groups": "dev", "": "ops"}) == User("ann")


@pytest.mark.parametrize("name", [b"x-forwarded-user", b"x-forwarded-groups"])
async def test_a_header_that_comes_twice_is_refused(name: bytes) -> None:
    """A proxy that adds its header to that of the user must not make the user another one."""
    statuses: list[int] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        if "status" in message:
            statuses.append(message["status"])

    async def receive() -> Message:
        raise AssertionError

    async def ask(headers: list[tuple[bytes, bytes]]) -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"",
            "client": ("127.0.0.1", 1),
        }
        await guarded({**scope, "headers": [(b"host", b"127.0.0.1"), *headers]}, receive, send)

    guarded = Guarded(app, ["127.0.0.1"], of_ann(), PROXY)
    once = [(b"x-forwarded-user", b"ann"), (b"x-forwarded-groups", b"dev")]
    await ask(once)
    await ask([*once, (name, b"admins")])
    assert statuses == [200, 403]


async def test_a_user_who_logs_in_often_ends_only_sessions_of_the_same_user() -> None:
    logins = Logins(by_tokens({TOKEN: "ann", TOKEN[::-1]: "eve"}), hint="")
    ann = await logged_in(logins)
    cookies = [await logged_in(logins, TOKEN[::-1]) for _ in range(1100)]
    assert logins.session(*ann) is not None
    assert [logins.session(*one) is not None for one in cookies[-21:]] == [False, *[True] * 20]


async def test_many_tokens_of_one_user_end_only_sessions_of_the_same_user() -> None:
    """Since Kubernetes 1.32 each token of a service account has an id, which a TokenReview reports."""

    async def authenticate(token: str, _: str) -> User | None:
        extra = (("authentication.kubernetes.io/credential-id", (f"JTI={token}",)),)
        return User("ann") if token == TOKEN else User("eve", extra=extra)

    logins = Logins(authenticate, hint="")
    ann = await logged_in(logins)
    cookies = [await logged_in(logins, f"token {number}") for number in range(1100)]
    assert logins.session(*ann) is not None
    assert [logins.session(*one) is not None for one in cookies[-21:]] == [False, *[True] * 20]


async def test_many_accounts_of_a_namespace_end_no_session_of_another_user() -> None:
    """More accounts than sessions, and each with fewer than another user has."""
    users = {f"token-{number}": f"system:serviceaccount:evil:account-{number}" for number in range(1100)}
    logins = Logins(by_tokens({**users, TOKEN: "ann"}), hint="")
    anns = [await logged_in(logins) for _ in range(3)]
    evil = [await logged_in(logins, token) for token in users]
    assert [logins.session(*one) is not None for one in anns] == [True, True, True]
    assert sum(logins.session(*one) is not None for one in evil) == 997


async def test_a_cookie_is_of_no_use_at_another_address_or_to_another_page() -> None:
    logins, other = of_ann(), of_ann()
    address, cookie = await logged_in(logins)
    second, _ = await logged_in(logins)
    assert logins.session(address, cookie)
    assert logins.session(second, cookie) is None
    assert logins.session(address, "") is None
    assert other.session(address, cookie) is None


def test_the_path_of_a_session_is_before_that_of_the_page() -> None:
    key = "aA0_-" * 6 + "zz"
    for path, page in (
        (f"/s/{key}", "/"),
        (f"/s/{key}/", "/"),
        (f"/s/{key}/queues/a", "/queues/a"),
        (f"/s/{key}/s/{key}", f"/s/{key}"),
    ):
        assert login.split_path(path) == (SessionAddress(key), page)
    for path in (
        "/",
        "/queues/s",
        f"/s/{key}x",
        f"/s/{key[1:]}/queues/a",
        f"//s/{key}",
        f"/s/{key}%2f",
        "/s//",
    ):
        assert login.split_path(path) == (None, path)
