"""Plain requests to the API server, through `kubectl proxy` on a Unix socket: no client library, no second login."""

import contextlib
import http.client
import json
import socket
from pathlib import Path

from clusterkit.errors import ApiError, HarnessError

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def shut_down(self) -> None:
        """Ends what another thread waits for on it."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


def request(
    proxy: Path, method: str, path: str, body: object = None, *, patch: str = "merge", timeout: float = 30
) -> object:
    """One request; the answer is the JSON that came back, or the text where it isn't JSON.

    `patch` says what a PATCH's body is: merge, json or apply. Raises ApiError for an answer of 400 and above, and
    HarnessError when there is no answer.
    """
    connection = UnixConnection(proxy, timeout)
    headers = {"Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = PATCH_TYPES[patch] if method == "PATCH" else "application/json"
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    except OSError as error:
        raise HarnessError(
            f"{method} {path}: the API server can't be reached through {proxy}: {error}"
        ) from error
    finally:
        connection.close()
    if response.status >= 400:
        raise ApiError(method, path, response.status, text)
    try:
        return json.loads(text)
    except ValueError:
        return text
