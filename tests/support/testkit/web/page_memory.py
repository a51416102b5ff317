"""A program: the web page over a Kubernetes API in memory, which reports the most memory that it had.

Arguments: a URL for each queue, the namespaces of which differ by two. Users read the workers of all queues again and
again. Prints a line when it serves, and the most bytes of memory when its input ends.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message

from claimq_web.queues.cluster_queues import ClusterQueues
from claimq_web.users.login import Logins, by_tokens
from claimq_web.website import Site
from testkit.kubernetes.operator_in_memory import MemoryApi
from testkit.programs.peak_memory import print_peak

ACCEPTED = {"conditions": [{"type": "RedisReachable", "status": "True", "observedGeneration": 1}]}
"""What every user with the right to write a status can write."""
_USERS = 40


def owner_of(number: int) -> str:
    """The record of a queue's owner, which its server has to return."""
    return f"test n{number // 2} q{number} u{number} 1"


async def get(app: ASGIApp, path: str, token: str) -> int:
    """The status of a page."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 1), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return int(sent[0]["status"])


async def run(urls: Sequence[str], directory: Path) -> None:
    """Serves the page until the input ends."""
    api = MemoryApi()
    for number, url in enumerate(urls):
        name, namespace = f"q{number}", f"n{number // 2}"
        metadata = {"name": name, "namespace": namespace, "uid": f"u{number}", "generation": 1}
        api.objects["ReliableQueue", name] = {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": metadata,
            "spec": {"redis": {"url": url}, "worker": {"image": "app:1"}},
            "status": ACCEPTED,
        }
    queues = ClusterQueues(api, directory)  # type: ignore[arg-type]  # it evicts nothing here
    await queues.refresh()
    names = await queues.names()
    tokens = {f"{number:020d}": f"user{number}" for number in range(_USERS)}
    site = Site(queues, Logins(by_tokens(tokens), hint=""))
    app = site.app("127.0.0.1")

    async def ask(number: int, token: str) -> None:
        for turn in range(10_000):
            name = names[(number * 7 + turn) % len(names)]
            await get(app, f"/api/v1/queues/{name}/workers", token)

    async with site.running():
        asking = [asyncio.create_task(ask(number, token)) for number, token in enumerate(tokens)]
        await print_peak()
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    await queues.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(run(sys.argv[1:], Path(place)))
