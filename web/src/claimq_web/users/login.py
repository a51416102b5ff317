"""Who may use the page: users who log in with a token or come through a proxy, and their sessions."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import stat
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from claimq_admin.changes.local_user import local_user
from claimq_admin.errors import USAGE, CommandError

SESSIONS = "/s/"
"""The paths of sessions."""
_IDLE_SECONDS = 12 * 3600.0
_TOKEN_SECONDS = 60.0
_MOST_SESSIONS = 1000
_MOST_OF_A_USER = 20
_MOST_NOTICES = 10
_SHORTEST_TOKEN = 20
_LONGEST_NAME = 100
_SESSION_PATH = re.compile(f"{SESSIONS}([A-Za-z0-9_-]{{32}})(?=/|$)")
_SERVICE_ACCOUNT = ["system", "serviceaccount"]


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request. ``groups``, ``uid`` and ``extra`` are those of a user of Kubernetes.

    ``expires_at``: the instant (``time.monotonic()``) at which the token of the login expires; None for never.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    expires_at: float | None = field(default=None, compare=False)


Authenticate = Callable[[str, str], Awaitable[User | None]]
"""Finds the user with a token; None for an unknown one. The second argument is the address of the client."""


class TooManyChecks(Exception):
    """A token is not checked now, since too many are. ``retry_after``: seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many tokens are being checked; try again in {retry_after} s")
        self.retry_after = retry_after


@dataclass
class Session:
    """A browser whose user has logged in. ``form_token`` is in each form of its pages; no other site knows it."""

    identity: User
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    used_at: float = field(default_factory=time.monotonic)
    notices: list[str] = field(default_factory=list[str])

    @property
    def user(self) -> str:
        """The name of the user."""
        return self.identity.name

    @property
    def has_expired(self) -> bool:
        """Whether it was not used for 12 hours, or its token has expired."""
        now, expires_at = time.monotonic(), self.identity.expires_at
        return now - self.used_at > _IDLE_SECONDS or (expires_at is not None and now > expires_at)

    def note(self, text: str) -> None:
        """Adds a text for the next page that the browser opens."""
        self.notices = [*self.notices, text][-_MOST_NOTICES:]

    def take_notices(self) -> list[str]:
        """The texts for this page."""
        notices, self.notices = self.notices, []
        return notices


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """Where the pages of a session are: below a path that only its browser knows.

    The cookie is limited to that path. A browser sends the cookies of a host to all of its ports, and programs of
    others may listen there; but a request for this path goes to no other program, since none knows it.
    """

    key: str

    @property
    def base(self) -> str:
        """The path before those of the pages."""
        return SESSIONS + self.key

    @property
    def cookie(self) -> str:
        """The name of the cookie, which no other program of the host can set either."""
        return f"claimq_session_{self.key}"


def split_path(path: str) -> tuple[SessionAddress | None, str]:
    """The address of a session in the path of a request, and the path of the page."""
    match = _SESSION_PATH.match(path)
    return (SessionAddress(match[1]), path[match.end() :] or "/") if match else (None, path)


def group_of(user: str) -> str:
    """Whom a user shares limits with: all service accounts of a namespace, since one tenant can create them."""
    parts = user.split(":")
    return ":".join(parts[:3]) if parts[:2] == _SERVICE_ACCOUNT and len(parts) > 3 else user


class Logins:
    """The sessions of users.

    They are in memory: after a restart of claimq users log in again. A session ends after 12 hours without a request,
    or when its token expires.
    """

    def __init__(self, authenticate: Authenticate, *, hint: str) -> None:
        """``hint``: for the login page, where a token comes from."""
        self.hint = hint
        self._authenticate = authenticate
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    async def log_in(self, token: str, peer: str = "") -> tuple[SessionAddress, str] | None:
        """Begins a session for the user with this token. Returns its address and the value of its cookie, None for an
        unknown token.

        ``peer``: the address of the client. Raises TooManyChecks.
        """
        user = await self._authenticate(token, peer) if token else None
        if user is None:
            return None
        address, cookie = SessionAddress(secrets.token_urlsafe(24)), secrets.token_urlsafe(32)
        self._begin(_digest(f"{address.key} {cookie}"), user)
        return address, cookie

    def session(self, address: SessionAddress, cookie: str) -> Session | None:
        """The session at this address, if the cookie is its own; None if it has ended or never began."""
        return self._find(_digest(f"{address.key} {cookie}"))

    def session_of(self, user: User) -> Session:
        """The session of a user whom a proxy has authenticated: one for all of their browsers."""
        key = _digest(repr(user))
        return self._find(key) or self._begin(key, user)

    async def session_of_token(self, token: str, peer: str) -> Session | None:
        """The session of a request with the token of a user, which is checked every minute. None for an unknown one.

        ``peer``: the address of the client. Raises TooManyChecks.
        """
        key = _digest(f"token {token}")
        if session := self._find(key):
            return session
        user = await self._authenticate(token, peer) if token else None
        if user is None:
            return None
        ends_at = time.monotonic() + _TOKEN_SECONDS
        if user.expires_at is None or user.expires_at > ends_at:
            user = replace(user, expires_at=ends_at)
        return self._begin(key, user)

    def log_out(self, address: SessionAddress, cookie: str) -> None:
        """Ends the session at this address."""
        self._sessions.pop(_digest(f"{address.key} {cookie}"), None)

    def _begin(self, key: str, user: User) -> Session:
        # By name: each token of a service account has an id of its own in `extra`.
        keys_of_user = [
            key_of_user for key_of_user, session in self._sessions.items() if session.user == user.name
        ]
        for oldest in keys_of_user[: max(0, len(keys_of_user) + 1 - _MOST_OF_A_USER)]:
            del self._sessions[oldest]
        if len(self._sessions) >= _MOST_SESSIONS:
            self._end_one_of_the_largest_group()
        session = self._sessions[key] = Session(user)
        return session

    def _end_one_of_the_largest_group(self) -> None:
        """Ends the session that was unused for longest, of the group of users that has most sessions."""
        groups = Counter(group_of(session.user) for session in self._sessions.values())
        largest = groups.most_common(1)[0][0]
        oldest = next(key for key, session in self._sessions.items() if group_of(session.user) == largest)
        del self._sessions[oldest]

    def _find(self, key: str) -> Session | None:
        session = self._sessions.get(key)
        if session is None:
            return None
        if session.has_expired:
            del self._sessions[key]
            return None
        session.used_at = time.monotonic()
        self._sessions.move_to_end(key)
        return session


def by_tokens(users: Mapping[str, str]) -> Authenticate:
    """Finds users by their tokens. ``users``: token -> name."""
    users_by_digest = {_digest(token): User(name) for token, name in users.items()}

    async def authenticate(token: str, peer: str) -> User | None:  # noqa: ARG001 - as the type has it
        # Found by its digest, so that the time says nothing about the token.
        return users_by_digest.get(_digest(token))

    return authenticate


def of_local_user() -> tuple[Authenticate, str]:
    """Finds only the user of this process, by a new token; returns the token too."""
    token = secrets.token_urlsafe(24)
    return by_tokens({token: local_user()}), token


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """The headers in which a proxy names the user that it has authenticated. Those of other peers are not believed.

    ``group_header`` has the names of groups, separated by commas; without one no user has groups. The prefixes are put
    before the names, as the API server does with those of an OpenID Connect provider.
    """

    trusted: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    user_header: str = "x-forwarded-user"
    group_header: str = ""
    user_prefix: str = ""
    group_prefix: str = ""

    def trusts(self, peer: str) -> bool:
        """Whether the peer with this address is the proxy."""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.trusted)

    def user(self, headers: Mapping[str, str]) -> User | None:
        """The user of a request from the proxy; None if it names none.

        Names that begin with ``system:`` belong to Kubernetes itself: such a user is refused and such a group left out.
        """
        name = self.user_prefix + headers.get(self.user_header, "").strip()
        if name == self.user_prefix or name.startswith("system:"):
            return None
        header = headers.get(self.group_header, "") if self.group_header else ""
        groups = (group.strip() for group in header.split(","))
        named = tuple(self.group_prefix + group for group in groups if group)
        return User(name, tuple(group for group in named if not group.startswith("system:")))


def networks(texts: Iterable[str]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks of addresses and ranges such as ``10.0.0.0/8``. CommandError for anything else."""
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise CommandError(
                f"--trust-proxy {text}: {error}; give an IP address or a range", USAGE
            ) from error
    return tuple(networks)


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
