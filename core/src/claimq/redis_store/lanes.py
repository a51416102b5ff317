"""Lanes: the identities of mutating calls. A call holds a lane for as long as it may be repeated."""

from __future__ import annotations

import itertools
import os
import secrets

from claimq.redis_store.scripts import Call


class Lane:
    """A lane within a ``with`` statement. The value is the call's identity."""

    __slots__ = ("_call", "_lanes")

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def __enter__(self) -> Call:
        self._call = self._lanes.take_lane()
        return self._call

    def __exit__(self, *_: object) -> None:
        self._lanes.give_lane(self._call)


class Lanes:
    """The lanes of one instance, which is a connection in one process. Any thread may take and give them: each step on
    a list or a dict is atomic, and only the holder of a lane changes its number."""

    def __init__(self) -> None:
        self.renew_lanes()

    def renew_lanes(self) -> None:
        """Another instance, without a lane."""
        self._pid = os.getpid()
        self.instance = secrets.token_urlsafe(9)
        self._free: list[int] = []
        self._calls: dict[int, int] = {}
        self._new = itertools.count()

    def share_lanes(self, other: Lanes) -> None:
        """Uses the lanes of another object from now on, as its instance."""
        self._pid, self.instance = other._pid, other.instance
        self._free, self._calls, self._new = other._free, other._calls, other._new

    def reset_after_fork(self) -> None:
        """Called in the child of a fork: by a hook of Python, or before the first call."""
        self.renew_lanes()

    def notice_fork(self) -> None:
        """Resets the lanes if this is the child of a fork that has run no hooks, such as uWSGI's."""
        if self._pid != os.getpid():
            self.reset_after_fork()

    def take_lane(self) -> Call:
        """Takes a free lane for one call and returns the call's identity. :meth:`give_lane` gives it back."""
        self.notice_fork()
        try:
            lane = self._free.pop()
        except IndexError:
            lane = next(self._new)
        self._calls[lane] = self._calls.get(lane, 0) + 1
        return self.instance, lane, self._calls[lane]

    def next_on_lane(self, call: Call) -> Call:
        """The identity of the next call on a lane that is held. Once that has run, the server refuses earlier ones."""
        lane = call[1]
        self._calls[lane] += 1
        return self.instance, lane, self._calls[lane]

    def give_lane(self, call: Call) -> None:
        """Gives a lane back; its next call has a higher number."""
        self._free.append(call[1])

    def lane(self) -> Lane:
        """A lane within a ``with`` statement."""
        return Lane(self)
