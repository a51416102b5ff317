"""Connections of the client library with a timeout by inactivity: a large command or reply may take longer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import TimeoutError as TimedOut

from claimq.address.redis_url import ONE_DOT, has_one_dot, in_namespace
from claimq.redis_store.clients.parsers import InactivityTimeout, inactivity

_PIECE = 65536
"""Bytes of a command that are sent at a time. Each piece that was sent restarts the timeout."""


class _Listening:
    """Goes before a class of connections. Its parser is a :class:`~claimq.redis_store.clients.parsers.ListeningParser`.

    ``socket_timeout``: seconds without a byte sent or received; None: the caller has a timeout of its own.
    ``namespace``: where short host names are Services; see :func:`claimq.address.redis_url.in_namespace`.
    """

    socket_timeout: float | None
    namespace = ""

    def _connection_arguments(self) -> Any:
        """As the library's. The connection keeps the host name that Sentinels or nodes reported: the library finds it
        by that name."""
        arguments: Any = super()._connection_arguments()  # type: ignore[misc]  # of the class behind this one
        host = arguments["host"]
        if self.namespace and has_one_dot(host):
            raise Unreachable(ONE_DOT)
        if "ssl" in arguments and host.endswith("."):  # no certificate has such a name
            arguments = {**arguments, "server_hostname": host.removesuffix(".")}
        return {**arguments, "host": in_namespace(host, self.namespace)}

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """As the library's, which bounds the whole command."""
        for piece in _pieces(command):
            await super().send_packed_command(piece, check_health)  # type: ignore[misc]  # of the class behind this one
            if (timeout := inactivity.get()) is not None:
                timeout.restart()

    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """As the library's, which bounds the whole reply."""
        read: Any = super().read_response  # type: ignore[misc]  # likewise
        if timeout is not None or self.socket_timeout is None:
            return await read(disable_decoding, timeout, **options)
        try:
            async with InactivityTimeout(self.socket_timeout, self.socket_timeout):
                return await read(disable_decoding, math.inf, **options)
        except TimeoutError:
            raise TimedOut(f"the server sent nothing for {self.socket_timeout:g} s") from None


@cache
def listening(base: type[Any], namespace: str = "") -> type[Any]:
    """A class of connections with a timeout by inactivity."""
    return type(base.__name__, (_Listening, base), {"namespace": namespace})


def _pieces(command: bytes | str | Iterable[bytes]) -> Iterator[Any]:
    """A command in pieces of at most :data:`_PIECE` bytes; one that is not longer as it is."""
    if not isinstance(command, bytes | str):
        command = list(command)
        if sum(map(len, command)) > _PIECE:
            command = b"".join(command)
    if not isinstance(command, bytes) or len(command) <= _PIECE:
        yield command
        return
    for start in range(0, len(command), _PIECE):
        yield command[start : start + _PIECE]
