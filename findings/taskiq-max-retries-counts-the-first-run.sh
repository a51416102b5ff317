#!/usr/bin/env bash
# taskiq 0.13.0: max_retries=3 runs a failing task three times in all, and max_retries=1 does not retry it. In dramatiq
# 2.2.1 the option of the same name allows three runs after the first one, as in Celery (and as Retry(max=3) in RQ).
# Expected was that retries are counted, not runs. A task that moves over has one try less, and max_retries=1 gives none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install taskiq==0.13.0 dramatiq==2.2.1
"$folder/venv/bin/python" - 2>"$folder/log" <<'PROGRAM'
import asyncio
import importlib.metadata

import dramatiq
from dramatiq.brokers.stub import StubBroker
from taskiq import InMemoryBroker, SimpleRetryMiddleware

for name in ("taskiq", "dramatiq"):
    print(name, importlib.metadata.version(name))


async def taskiq_runs(limit: int) -> int:
    broker = InMemoryBroker().with_middlewares(SimpleRetryMiddleware())
    runs = []

    @broker.task(retry_on_error=True, max_retries=limit)
    async def failing() -> None:
        runs.append(1)
        raise ValueError

    await broker.startup()
    await failing.kiq()
    for _ in range(100):
        before = len(runs)
        await broker.wait_all()
        await asyncio.sleep(0)
        if len(runs) == before:
            break
    await broker.shutdown()
    return len(runs)


def dramatiq_runs(limit: int) -> int:
    broker = StubBroker()
    runs = []

    @dramatiq.actor(broker=broker, max_retries=limit, min_backoff=1, max_backoff=1)
    def failing() -> None:
        runs.append(1)
        raise ValueError

    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=1)
    worker.start()
    failing.send()
    broker.join("default", timeout=20_000, fail_fast=False)
    worker.join()
    worker.stop()
    return len(runs)


for limit, expected in {1: (1, 2), 3: (3, 4)}.items():
    runs = asyncio.run(taskiq_runs(limit)), dramatiq_runs(limit)
    print(f"max_retries={limit}: runs in taskiq {runs[0]}, in dramatiq {runs[1]}")
    assert runs == expected, runs
PROGRAM
