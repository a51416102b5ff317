"""Records what other queue systems write: runs a library against a server of its own, and saves all keys as JSON.

Usage: python tests/recordings/record.py NAME COMMAND [ARG...]; see README.md.
"""

import json
import subprocess
import sys
from pathlib import Path

from testkit.servers.server import Server

HERE = Path(__file__).parent


def text(value: object) -> str:
    """Bytes as text with one character per byte, so that JSON can hold them."""
    assert isinstance(value, bytes)
    return value.decode("latin-1")


def content(server: Server, key: str) -> dict[str, object]:
    """The type and the values of a key, as the arguments of RPUSH, ZADD, HSET, SADD or SET."""
    kind = text(server.call("TYPE", key))
    match kind:
        case "list":
            found = server.call("LRANGE", key, 0, -1)
        case "zset":
            found = server.call("ZRANGE", key, 0, -1, "WITHSCORES")
        case "hash":
            found = server.call("HGETALL", key)
        case "set":
            found = server.call("SMEMBERS", key)
        case "string":
            found = [server.call("GET", key)]
        case _:
            return {"type": kind, "values": []}  # a stream of events, which no import reads
    assert isinstance(found, list)
    values = [text(one) for one in found]
    if kind == "zset":  # the score first, as ZADD wants it
        values = [one for at in range(0, len(values), 2) for one in (values[at + 1], values[at])]
    return {"type": kind, "values": values}


def main(name: str, command: list[str]) -> None:
    """Runs the command with HOST:PORT at its end, and writes NAME.json."""
    with Server("valkey", tcp=True) as server:
        server.start()
        ran = subprocess.run(
            [*command, f"127.0.0.1:{server.port}"], check=True, stdout=subprocess.PIPE, text=True
        )
        keys = server.call("KEYS", "*")
        assert isinstance(keys, list)
        names = sorted(key.decode() for key in keys if isinstance(key, bytes))
        recording = {
            "versions": json.loads(ran.stdout.splitlines()[-1]),
            "keys": {key: content(server, key) for key in names},
        }
    (HERE / f"{name}.json").write_text(json.dumps(recording, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
