#!/usr/bin/env bash
# kopf 1.45.2: when kopf.run_tasks ends, it cancels every task of the event loop that is not in `ignored`, also tasks
# that belong to neither kopf nor its handlers and that began after the call. A program that runs kopf beside tasks of
# its own loses these, and cannot name them before they exist. Expected was that it ends only the tasks it was given.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install kopf==1.45.2
"$folder/venv/bin/python" - <<'PROGRAM'
import asyncio
import importlib.metadata
import kopf


async def main() -> None:
    print("kopf", importlib.metadata.version("kopf"))
    begun = asyncio.Event()

    async def root() -> None:
        await begun.wait()

    async def other() -> None:
        begun.set()
        await asyncio.sleep(60)

    before = asyncio.create_task(asyncio.sleep(60))
    running = asyncio.create_task(
        kopf.run_tasks([asyncio.create_task(root())], ignored={asyncio.current_task(), before})
    )
    await asyncio.sleep(0)
    younger = asyncio.create_task(other())
    await running
    await asyncio.sleep(0.1)
    print("a task that was ignored by name was cancelled:", before.cancelled())
    print("a task that began after the call was cancelled:", younger.cancelled())
    assert not before.cancelled()
    assert younger.cancelled()
    before.cancel()


asyncio.run(main())
PROGRAM
