"""Ports of all kinds at which a queue has no server that accepts its user."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

from testkit.plugin import ServerFactory
from testkit.programs.ports import free_port


@contextmanager
def urls_of_other_ports(start_server: ServerFactory) -> Generator[Sequence[str]]:
    """The URLs of a closed port, a silent one, HTTP, POP3, a server with TLS and one with another password, each with
    and without a password; and of a host that does not exist."""
    with_password = start_server(tcp=True)
    with_password.call("CONFIG", "SET", "requirepass", "another")
    with_tls = start_server("redis7", tls=True)
    with _silent() as silent, _http() as http, _pop3() as pop3:
        ports = [free_port(), silent, http, pop3, with_tls.port, with_password.port]
        urls = [f"redis://{user}127.0.0.1:{port}/0" for port in ports for user in ("", ":wrong@")]
        yield [*urls, "redis://missing.example.invalid/0"]


@contextmanager
def _silent() -> Generator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def _http() -> Generator[int]:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _pop3() -> Generator[int]:
    """A port that greets with a line that is a reply in Redis' protocol too, and refuses all commands in such lines."""

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                connection, _ = listening.accept()
                with connection, connection.makefile("rb") as lines, suppress(OSError):
                    connection.sendall(b"+OK ready\r\n")
                    for _ in lines:
                        connection.sendall(b"-ERR unknown command\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
