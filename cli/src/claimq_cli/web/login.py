"""Who may use the page: users with tokens, and their sessions."""

from __future__ import annotations

import hashlib
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from claimq_cli.errors import USAGE, CommandError
from claimq_cli.local_user import local_user

COOKIE = "claimq_session"
_IDLE_SECONDS = 12 * 3600.0
_MOST_SESSIONS = 1000
_MOST_NOTICES = 10
_SHORTEST_TOKEN = 20
_LONGEST_NAME = 100


@dataclass
class Session:
    """A browser whose user has logged in. ``form_token`` is in each form of its pages; no other site knows it."""

    user: str
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    used_at: float = field(default_factory=time.monotonic)
    notices: list[str] = field(default_factory=list[str])

    def note(self, text: str) -> None:
        """Adds a text for the next page that the browser opens."""
        self.notices = [*self.notices, text][-_MOST_NOTICES:]

    def take_notices(self) -> list[str]:
        """The texts for this page."""
        notices, self.notices = self.notices, []
        return notices


class Logins:
    """Users by their tokens, and the sessions of their browsers.

    All of it is in memory: after a restart of claimq users log in again. A session ends after 12 hours without a
    request.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        """``users``: token -> name."""
        self._users = {_digest(token): name for token, name in users.items()}
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    @staticmethod
    def of_local_user() -> tuple[Logins, str]:
        """Logins of the user of this process alone, and a new token for it."""
        token = secrets.token_urlsafe(24)
        return Logins({token: local_user()}), token

    def log_in(self, token: str) -> str | None:
        """Begins a session for the user with this token; returns the value of its cookie, None for an unknown token."""
        user = self._users.get(
            _digest(token)
        )  # found by its digest, so that the time says nothing about the token
        if user is None:
            return None
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = Session(user)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it has ended or never began."""
        key = _digest(cookie)
        session = self._sessions.get(key)
        if session is None:
            return None
        now = time.monotonic()
        if now - session.used_at > _IDLE_SECONDS:
            del self._sessions[key]
            return None
        session.used_at = now
        self._sessions.move_to_end(key)
        return session

    def log_out(self, cookie: str) -> None:
        """Ends the session of a cookie."""
        self._sessions.pop(_digest(cookie), None)


def read_users(path: Path) -> dict[str, str]:
    """The users of a file with a line NAME TOKEN for each, by their tokens. CommandError names a wrong line."""
    try:
        mode, text = path.stat().st_mode, path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"the users cannot be read from {path}: {why}", USAGE) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CommandError(f"other users of this machine can use {path}; run: chmod 600 {path}", USAGE)
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        problem = _problem(words, users)
        if problem:
            raise CommandError(f"{path}, line {number}: {problem}", USAGE)
        users[words[1]] = words[0]
    if not users:
        raise CommandError(f"{path} has no user; write a line NAME TOKEN for each", USAGE)
    return users


def _problem(words: list[str], users: Mapping[str, str]) -> str:
    """What is wrong with a line; never with the token in it."""
    if len(words) != 2:
        return "write NAME TOKEN, separated by a blank"
    name, token = words
    if len(name) > _LONGEST_NAME:
        return f"the name has more than {_LONGEST_NAME} characters"
    if len(token) < _SHORTEST_TOKEN:
        return f"the token has less than {_SHORTEST_TOKEN} characters; make one with: openssl rand -hex 16"
    return "another user has the same token" if token in users else ""


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
