"""An app that listens for items, in the test's own process: it records requests and answers as the test says."""

import http.server
import json
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from socket import AF_UNIX
from typing import Any, Protocol, Self

from testkit.programs.ports import free_port
from testkit.servers.started import Started


@dataclass(frozen=True)
class Pushed:
    """A request: its path, its headers by lower-case name, its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


@dataclass(frozen=True)
class Reply:
    """A response. Status 0: the connection is closed instead."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


Respond = Callable[[Pushed], Reply]


def _accept(_: Pushed) -> Reply:
    return Reply()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: Any, handler: type[http.server.BaseHTTPRequestHandler], backlog: int) -> None:
        self.request_queue_size = backlog
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections end in many ways here."""


class _UnixServer(_Server):
    address_family = AF_UNIX

    def get_request(self) -> tuple[Any, Any]:
        """The handler wants an address with two parts."""
        connection, _ = super().get_request()
        return connection, ("", 0)


class PushApp(Started):
    """Listens on a port that no other test gets, or on a socket. `pushes` are the requests with items, in the order of
    their ends."""

    def __init__(
        self,
        respond: Respond | None = None,
        *,
        port: int = 0,
        socket: Path | None = None,
        backlog: int = 128,
    ) -> None:
        """``backlog``: how many connections may wait to be accepted."""
        self.respond = respond or _accept
        self.pushes: list[Pushed] = []
        self.most = 0
        """The most requests that were in progress at the same time."""
        self._in_progress = 0
        self._lock = threading.Lock()
        if socket is not None:
            self._server: _Server = _UnixServer(str(socket), self._handler(), backlog)
        else:
            self._server = _Server(("127.0.0.1", port or free_port()), self._handler(), backlog)
        self.port: int = 0 if socket else self._server.server_address[1]

    def start(self) -> Self:
        """Answers from now on; connections were accepted before."""
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def close(self) -> None:
        """Ends it, as its death would, except that requests in progress are still answered."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def texts(self) -> list[str]:
        """The bodies of the requests with items."""
        with self._lock:
            return [one.text for one in self.pushes]

    def events(self) -> list[list[Any]]:
        """The ids of the items in each request of batched mode."""
        with self._lock:
            return [[event["id"] for event in json.loads(one.body)] for one in self.pushes]

    def _answer(self, pushed: Pushed) -> Reply:
        with self._lock:
            self._in_progress += 1
            self.most = max(self.most, self._in_progress)
        try:
            return self.respond(pushed)
        finally:
            with self._lock:
                self._in_progress -= 1
                if pushed.method == "POST":
                    self.pushes.append(pushed)

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _reply(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", "0")))
                reply = answer(Pushed(self.command, self.path, headers, body))
                if not reply.status:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_POST = do_GET = _reply  # noqa: N815 - http.server's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
                """Logs nothing."""

        return Handler


class StartApp(Protocol):
    """The fixture `start_app`."""

    def __call__(
        self, respond: Respond | None = None, *, port: int = 0, socket: Path | None = None
    ) -> PushApp: ...
