"""Does what the header "do" of each item says, and reports it in lines of JSON. ``OPTIONS``: settings of the client."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import claimq
import claimq.worker
from claimq.worker import AsyncItem, AsyncWorker, NewItem, Outcome

options = json.loads(os.environ.get("OPTIONS", "{}"))


def report(**event: object) -> None:
    print(json.dumps(event), flush=True)


async def throw(error: Exception) -> None:
    raise error


async def done_twice(item: AsyncItem) -> Outcome:
    await item.done()
    return await item.done()


async def read(item: AsyncItem, kind: str) -> None:
    _ = item.json() if kind == "json" else item.text


ACTIONS: dict[str | None, Callable[[AsyncItem], Awaitable[Outcome | None]]] = {
    "raise": lambda _: throw(TypeError("cannot")),
    "raise-nothing": lambda _: throw(Exception()),
    "json": lambda item: read(item, "json"),
    "text": lambda item: read(item, "text"),
    "raise-fail": lambda _: throw(claimq.Fail("why", permanent=True)),
    "raise-fail-delay": lambda _: throw(claimq.Fail("why", delay=60)),
    "raise-requeue": lambda _: throw(claimq.Requeue(delay=60)),
    "raise-later": lambda _: throw(claimq.Later(60)),
    "raise-close": lambda _: throw(claimq.Later(60, close="queue")),
    "done": lambda item: item.done(),
    "fail": lambda item: item.fail("no"),
    "fail-permanent": lambda item: item.fail(RuntimeError("broken"), permanent=True),
    "fail-delay": lambda item: item.fail("no", delay=60),
    "requeue": lambda item: item.requeue(),
    "requeue-delay": lambda item: item.requeue(delay=60),
    "later": lambda item: item.later(60),
    "unclaim": lambda item: item.unclaim(),
    "renew": lambda item: item.renew(),
    "done-twice": done_twice,
    "follow": lambda item: item.done(enqueue=["next", NewItem({"n": 1}, id="own", delay=60)]),
    "follow-badly": lambda item: item.done(enqueue=[NewItem("b", id="\n")]),
    "exit": lambda _: os._exit(3),
}


async def work(item: AsyncItem) -> None:
    payload = base64.b64encode(item.payload).decode()
    fields = {
        "headers": item.headers,
        "client": item.client,
        "priority": str(item.priority),
        "cost": item.cost,
    }
    counts = {"crashes": item.crash_count, "postponed": item.postponed_count}
    report(begin=item.id, payload=payload, **fields, **counts)
    if pipe := item.headers.get("pipe"):
        await asyncio.to_thread(Path(pipe).read_bytes)
    action = ACTIONS.get(item.headers.get("do"))
    if action is not None and (result := await action(item)) is not None:
        report(verdict=item.id, **{"is": result.verdict}, delay=result.delay, lease=bool(result.lease_until))


async def loop(worker: AsyncWorker) -> None:
    async for item in worker.items():
        if item.headers.get("do") == "forget":
            continue
        if item.headers.get("do") == "leave":
            raise RuntimeError("the program ends")
        async with item:
            await work(item)
        if item.outcome is not None:
            report(end=item.id, **{"is": item.outcome.verdict})


async def produce(worker: AsyncWorker) -> None:
    own = NewItem([1], id="own", client="ann", delay=60, headers={"a": "1"}, priority="high")
    done = await worker.enqueue_many([b"\xff", "t", {"a": 1}, own])
    report(ids=len(done.ids), length=done.length, last=done.ids[3])
    again = await worker.enqueue([1], id="own")
    report(id=again.id, duplicate=again.is_duplicate)
    attempts: list[tuple[object, dict[str, Any]]] = [(3, {}), ("a", {"id": "\n"}), ("x" * 2_000_000, {})]
    for payload, words in attempts:
        try:
            await worker.enqueue(payload, **words)
        except Exception as error:  # noqa: BLE001 - it is reported
            report(error=type(error).__name__, message=str(error))


async def main() -> None:
    limits = {name: options[name] for name in ("within", "patience") if name in options}
    async with claimq.worker.connect_async(**limits) as worker:
        if options.get("produce"):
            await produce(worker)
            return
        window = options.get("window") or (await worker.info())["concurrency"] or 100
        loops = 1 if options.get("sequential") else window
        await asyncio.gather(*(loop(worker) for _ in range(loops)))
        report(over=worker.draining)


try:
    asyncio.run(main())
except Exception as error:  # noqa: BLE001 - it is reported
    report(error=type(error).__name__, message=str(error))
    sys.exit(1)
