"""The command line on a cluster: it forwards a port to the queue's server, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.on_cluster.queue_on_cluster import QueueOnCluster
from testkit.programs.processes import children, words_of
from testkit.waiting import eventually_sync

pytestmark = pytest.mark.cluster


def result(queue: QueueOnCluster, *arguments: str) -> Any:
    where = f"--namespace={queue.namespace}"
    done = queue.cluster.run(sys.executable, "-m", "claimq_cli", where, "--output=json", *arguments)
    return json.loads(done.stdout)


def port_forwards(parent: int) -> list[int]:
    """The processes below this one that forward ports."""
    forwards: list[int] = []
    for child in children(parent):
        words = words_of(child)
        forwards += [child] if b"port-forward" in words and b"kubectl" in words[0] else []
        forwards += port_forwards(child)
    return forwards


def test_commands_reach_a_server_inside_the_cluster(queue: QueueOnCluster) -> None:
    queue.apply(scaling={"mode": "Manual", "replicas": 0})
    assert len(result(queue, "enqueue", queue.name, "a", "b")["ids"]) == 2
    assert result(queue, "status", queue.name)["lengths"]["main"] == 2
    assert queue.items.length() == 2
    (only,) = result(queue, "status")["queues"]
    assert (only["queue"], only["lengths"]["main"]) == (queue.name, 2)


@contextmanager
def working(queue: QueueOnCluster) -> Generator[subprocess.Popen[bytes]]:
    """`claimq worker`, which has printed one payload and waits for more."""
    queue.apply(scaling={"mode": "Manual", "replicas": 0})
    result(queue, "enqueue", queue.name, "a")
    words = ("worker", queue.name, f"--namespace={queue.namespace}", "--", "sh", "-c", "cat; echo")
    command = [*queue.cluster.entering(), sys.executable, "-m", "claimq_cli", *words]
    with subprocess.Popen(
        command, env=queue.cluster.environment(), stdout=subprocess.PIPE, start_new_session=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"a\n"
        try:
            yield running
        finally:
            os.killpg(running.pid, signal.SIGKILL)


def test_a_command_that_is_killed_leaves_no_forwarded_port(queue: QueueOnCluster) -> None:
    with working(queue) as running:
        forwards = port_forwards(running.pid)
        assert len(forwards) == 1
    eventually_sync(lambda: not any(Path(f"/proc/{one}").exists() for one in forwards))


def test_a_forwarded_port_that_is_lost_is_opened_again(queue: QueueOnCluster) -> None:
    with working(queue) as running:
        (forward,) = port_forwards(running.pid)
        os.kill(forward, signal.SIGKILL)
        queue.items.enqueue("b")
        assert running.stdout is not None
        assert running.stdout.readline() == b"b\n"
        (another,) = port_forwards(running.pid)
        assert another != forward
