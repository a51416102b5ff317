"""Lanes: the identities of mutating calls. A call holds a lane for as long as it may be repeated.

The server keeps the reply to a lane's last call for a repetition (``lua/lib/call.lua``).
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Sequence

from claimq.redis_store.scripts import Arg, Call


class Lane:
    """A lane within a ``with`` statement. The value is the call's identity."""

    __slots__ = ("_call", "_lanes")

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def __enter__(self) -> Call:
        self._call = self._lanes.take()
        return self._call

    def __exit__(self, *_: object) -> None:
        self._lanes.give(self._call)


class Lanes:
    """The lanes of one instance, which is a connection in one process. Any thread may take and give them: each step on
    a list or a dict is atomic, and only the holder of a lane changes its number."""

    def __init__(self, after_fork: Callable[[], None]) -> None:
        """``after_fork`` is called in the child of a fork that has run no hooks, and renews the lanes."""
        self._after_fork = after_fork
        self.renew()

    def renew(self) -> None:
        """Another instance, without a lane."""
        self._pid = os.getpid()
        self.instance = secrets.token_urlsafe(9)
        self._free: list[int] = []
        self._calls: dict[int, int] = {}
        self._new = itertools.count()
        self._called: set[str] = set()  # the main keys at which replies are kept
        self._may_come_late = False

    def notice_fork(self) -> None:
        """Renews the lanes if this is the child of a fork that has run no hooks, such as uWSGI's."""
        if self._pid != os.getpid():
            self._after_fork()

    def take(self) -> Call:
        """Takes a free lane for one call and returns the call's identity. :meth:`give` gives it back."""
        self.notice_fork()
        try:
            lane = self._free.pop()
        except IndexError:
            lane = next(self._new)
        self._calls[lane] = self._calls.get(lane, 0) + 1
        return self.instance, lane, self._calls[lane]

    def next_on(self, call: Call) -> Call:
        """The identity of the next call on a lane that is held. Once that has run, the server refuses earlier ones."""
        lane = call[1]
        self._calls[lane] += 1
        return self.instance, lane, self._calls[lane]

    def give(self, call: Call) -> None:
        """Gives a lane back; its next call has a higher number."""
        self._free.append(call[1])

    def new_call(self) -> Lane:
        """The identity of a new call, which holds a lane within a ``with`` statement."""
        return Lane(self)

    def note_call(self, keys: Sequence[str], args: Sequence[Arg]) -> None:
        """A script with these words is about to be sent: the server will keep the reply if they have an identity."""
        if args and args[0] == self.instance:
            self._called.add(keys[0])

    def note_interrupted(self) -> None:
        """A call was given up whose outcome is unknown: it may still arrive, so the replies stay on the server."""
        self._may_come_late = True

    def kept_replies(self) -> list[str]:
        """The keys of the replies that can be removed when no call begins or is repeated any more."""
        if self._may_come_late:
            return []
        return [f"{main.removesuffix('main')}calls:{self.instance}" for main in sorted(self._called)]
