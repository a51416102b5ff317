"""A program: an operator over a Kubernetes API in memory, which reports the most memory that it had.

Arguments: a URL for each queue, the namespaces of which differ by two. Prints a line when the last queue's server was
reached, and the most bytes of memory when its input ends.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testkit.kubernetes.operator_in_memory import MemoryApi, add_queue, operator
from testkit.programs.peak_memory import print_peak
from testkit.waiting import eventually


async def run(urls: Sequence[str], directory: Path) -> None:
    """Serves the queues until the input ends."""
    api = MemoryApi()
    last = f"q{len(urls) - 1}"

    def is_reached() -> bool:
        status: Any = api.objects["ReliableQueue", last].get("status", {})
        return any(
            one["type"] == "RedisReachable" and one["status"] == "True"
            for one in status.get("conditions", [])
        )

    async with operator(api, directory) as context:
        for number, url in enumerate(urls):
            body = {
                "apiVersion": "claimq.dev/v1alpha1",
                "kind": "ReliableQueue",
                "metadata": {"name": f"q{number}", "namespace": f"n{number // 2}", "generation": 1},
                "spec": {"redis": {"url": url}, "worker": {"image": "app:1"}},
            }
            await add_queue(context, api, body)
        await eventually(is_reached)
        await print_peak()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(run(sys.argv[1:], Path(place)))
