"""A minimal app that reads a stream and ends its items in batches: ``python stream_app.py SOCKET``."""

import asyncio
import json
import sys

from claimq.worker.wire import request

WINDOW = 1_000
END_OF_HEAD = b"\r\n\r\n"


async def read(path: str) -> None:
    """Reads a stream; ends its items in batches, one request at a time."""
    delivered: asyncio.Queue[list[str]] = asyncio.Queue()
    words = {"window": WINDOW, "encoding": "base64"}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(settle(path, delivered))
        lines, sender = await asyncio.open_unix_connection(path)
        sender.write(request("/v1/stream", json.dumps(words).encode()))
        await lines.readuntil(END_OF_HEAD)
        while size := int(await lines.readline(), 16):
            line = json.loads(await lines.readexactly(size + 2))
            if "claims" in line:
                delivered.put_nowait([claim["token"] for claim in line["claims"]])


async def settle(path: str, delivered: asyncio.Queue[list[str]]) -> None:
    """Ends what was delivered. Raises SystemExit if a verdict is refused."""
    replies, sender = await asyncio.open_unix_connection(path)
    while True:
        tokens = await delivered.get()
        while not delivered.empty():
            tokens += delivered.get_nowait()
        sender.write(request("/v1/done", json.dumps({"tokens": tokens}).encode()))
        head = await replies.readuntil(END_OF_HEAD)
        if not head.startswith(b"HTTP/1.1 200 "):
            sys.exit(f"a verdict was refused: {head!r}")
        await replies.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))


if __name__ == "__main__":
    asyncio.run(read(sys.argv[1]))
