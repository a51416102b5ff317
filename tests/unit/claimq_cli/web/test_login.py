"""Users, tokens and sessions of the web page."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimq_cli.errors import CommandError
from claimq_cli.web import login
from claimq_cli.web.login import Logins, read_users

TOKEN = "0123456789abcdef0123"


def logged_in(logins: Logins) -> str:
    cookie = logins.log_in(TOKEN)
    assert cookie
    return cookie


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


def test_a_session_ends_when_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("claimq_cli.web.login.time.monotonic", lambda: now)
    logins = Logins({TOKEN: "ann"})
    cookie = logged_in(logins)
    for _ in range(3):
        now += 11 * 3600
        session = logins.session(cookie)
        assert session
        assert session.user == "ann"
    now += 13 * 3600
    assert logins.session(cookie) is None


def test_the_sessions_that_were_not_used_for_the_longest_time_end_first() -> None:
    logins = Logins({TOKEN: "ann"})
    cookies = [logged_in(logins) for _ in range(1000)]
    assert logins.session(cookies[0])
    cookies.append(logged_in(logins))
    assert [bool(logins.session(cookies[n])) for n in (0, 1, 2, 1000)] == [True, False, True, True]


def test_notices_are_shown_once_and_bounded() -> None:
    session = login.Session("ann")
    for number in range(12):
        session.note(str(number))
    assert session.take_notices() == [str(number) for number in range(2, 12)]
    assert session.take_notices() == []
