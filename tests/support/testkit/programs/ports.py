"""Free loopback ports."""

import fcntl
import itertools
import os
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_FIRST, _EACH, _PROCESSES = 10_000, 200, 50
"""Below the ports that local mode chooses (20000 to 31999) and that the kernel gives to outgoing connections."""


def free_port() -> int:
    """A loopback port that is free, and that no other process of this user gets from here before it is used."""
    for port in itertools.islice(_ports(), _EACH):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("all loopback ports of this process are in use")


@cache
def _ports() -> Iterator[int]:
    """The ports of this process, in turn. They are its own by a lock, which the kernel gives back when it ends."""
    folder = Path(tempfile.gettempdir()) / f"claimq-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(_PROCESSES):
        handle = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
        else:
            first = _FIRST + _EACH * number
            return itertools.cycle(range(first, first + _EACH))
    raise RuntimeError(f"{_PROCESSES} processes of this user have ports already (locks in {folder})")
