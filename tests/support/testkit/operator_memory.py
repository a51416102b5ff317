"""A program: an operator over a Kubernetes API in memory, which reports the most memory that it had.

Arguments: a URL for each queue, the namespaces of which differ by two. Prints a line when the last queue's server was
reached, and the most bytes of memory when its input ends.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from claimq_kubernetes.port import QUEUES
from testkit.operator_in_memory import MemoryApi, operator
from testkit.tree import ROOT
from testkit.waiting import eventually


def limit_of_the_chart() -> int:
    """The operator's limit of memory, in bytes."""
    values: Any = yaml.safe_load((ROOT / "charts" / "claimq" / "values.yaml").read_text())
    text = str(values["operator"]["resources"]["limits"]["memory"])
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi")) * 1024 * 1024


def largest_memory(pid: int) -> int:
    """The most memory that the process had so far, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


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
            context.cache.update_queue(await api.create(QUEUES, body))
        await eventually(is_reached)
        print("reached", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        print(largest_memory(os.getpid()), flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(run(sys.argv[1:], Path(place)))
