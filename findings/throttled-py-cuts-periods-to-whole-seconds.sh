#!/usr/bin/env bash
# A limit of 4 calls in 1.9 s lets 24 to 28 of them start within 5.7 s with throttled-py 3.5.0, whichever of its five
# algorithms counts: it cuts the period to 1 s, so the limit is 4 a second. Of 0.5 s it makes 0, and raises
# ZeroDivisionError. Expected were at most 16 calls (four at once and 4 in each 1.9 s), as the timedelta of its
# documented per_duration() says.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip --quiet install throttled-py==3.5.0
venv/bin/python - <<'PROGRAM'
import time
from datetime import timedelta

from throttled import MemoryStore, Throttled, rate_limiter

quota = rate_limiter.per_duration(timedelta(seconds=1.9), 4)
print(quota)
assert quota.period_sec == 1
for algorithm in ("token_bucket", "gcra", "leaking_bucket", "fixed_window", "sliding_window"):
    throttle = Throttled(key="api", using=algorithm, quota=quota, store=MemoryStore())
    started, ends_at = 0, time.monotonic() + 5.7
    while time.monotonic() < ends_at:
        started += not throttle.limit().limited
        time.sleep(0.01)
    print(f"{algorithm}: {started} calls in 5.7 s")
    assert started > 16
try:
    rate_limiter.per_duration(timedelta(seconds=0.5), 4)
except ZeroDivisionError as error:
    print("0.5 s:", error)
else:
    raise SystemExit("a period of 0.5 s is accepted")
PROGRAM
