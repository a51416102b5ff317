"""Requests to an HTTP server on a Unix socket."""

import http.client
import socket
from pathlib import Path


def get(place: Path, path: str) -> str:
    """The body of the response, whatever its status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(place))
        client = http.client.HTTPConnection("web")
        client.sock = connection
        client.request("GET", path)
        return client.getresponse().read().decode()
