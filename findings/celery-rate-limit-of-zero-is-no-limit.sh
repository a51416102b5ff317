#!/usr/bin/env bash
# celery 5.6.3: a task with rate_limit="0/s" (or "0/m", 0) runs without any limit. Expected was that it never starts:
# limits 5.8.0 reads "0/minute" as a limit that lets nothing through. Who sets a rate to zero to stop a task while the
# service that it calls is down, sets it free instead. The smallest rate that is one, such as "1/h", does hold it back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install celery==5.6.3 limits==5.8.0
"$folder/venv/bin/python" - <<'PROGRAM'
import importlib.metadata

from celery import Celery
from celery.contrib.testing.worker import start_worker
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

for name in ("celery", "limits"):
    print(name, importlib.metadata.version(name))
app = Celery("zero", broker="memory://", backend="cache+memory://")


@app.task(rate_limit="0/s")
def stopped(number):
    return number


@app.task(rate_limit="1/h")
def slow(number):
    slow_runs.append(number)


slow_runs = []
with start_worker(app, perform_ping_check=False, pool="solo", loglevel="error"):
    for number in range(3):
        slow.delay(number)
    calls = [stopped.delay(number) for number in range(20)]
    answers = [call.get(timeout=60) for call in calls]
print('celery: of 20 calls with "0/s" ran', len(answers), 'of 3 with "1/h"', len(slow_runs))
assert answers == list(range(20))
assert len(slow_runs) == 1, slow_runs
limiter = FixedWindowRateLimiter(MemoryStorage())
passed = sum(limiter.hit(parse("0/minute"), "caller") for _ in range(20))
print('limits: of 20 calls with "0/minute" passed', passed)
assert passed == 0
PROGRAM
