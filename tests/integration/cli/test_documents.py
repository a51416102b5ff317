"""The document of a command is the same as JSON and as YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from claimq.blocking import BlockingQueue as Queue
from testkit.plugin import Claimq
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server


@pytest.fixture
def queue(valkey: Server) -> Iterator[Queue]:
    """`q` with an item in each state, and a removed one."""
    with open_blocking_queue(valkey.url, worker="w") as queue:
        for name in ("busy", "failed", "removed"):
            queue.enqueue(name, id=name, priority="high", client="ann")
        busy, failed, removed = queue.claim(3, wait=0)
        queue.fail(failed, "no", permanent=True)
        queue.drop(removed, "not needed")
        queue.enqueue("main", id="main", headers={"a": "b"})
        queue.enqueue("delayed", id="delayed", delay=3600)
        queue.enqueue("[" * 330 + "]" * 330, id="deep", priority="low")
        queue.add_to_index()
        assert busy.item.id == "busy"
        yield queue


@pytest.mark.parametrize(
    "command",
    [
        "queues", "status", "status q", "workers q", "clients q", "items q delayed", "items q busy",
        "items q main", "items q failed", "item show q main", "item show q failed",
        "items q failed --error no", "items q main --client ann", "failed removed q",
        "policy q", "audit q", "item show q busy", "doctor",
    ],
)  # fmt: skip
def test_a_document_is_the_same_as_json_and_as_yaml(on: Claimq, queue: Queue, command: str) -> None:
    json_form, yaml_form = (on(*command.split(), "-o", form) for form in ("json", "yaml"))
    assert json_form.code == yaml_form.code
    assert without_times(yaml.safe_load(yaml_form.out)) == without_times(json.loads(json_form.out))


def without_times(document: Any) -> Any:
    """The names and texts of a document; numbers may differ from call to call."""
    return json.loads(json.dumps(document), parse_int=lambda _: 0, parse_float=lambda _: 0)
