"""Writes what another queue system wrote, as recorded in `tests/recordings/`, into a server."""

import json

from testkit.repository.tree import ROOT
from testkit.servers.server import Server

WRITES = {"list": "RPUSH", "zset": "ZADD", "hash": "HSET", "set": "SADD", "string": "SET"}


def replay(server: Server, name: str) -> None:
    """Restores all keys of a recording, apart from streams of events."""
    recording = json.loads((ROOT / "tests" / "recordings" / f"{name}.json").read_text())
    for key, content in recording["keys"].items():
        if content["values"]:
            values = [value.encode("latin-1") for value in content["values"]]
            server.call(WRITES[content["type"]], key, *values)
