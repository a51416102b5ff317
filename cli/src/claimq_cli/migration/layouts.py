"""The layouts of the queue systems that can be imported: plain lists, Queue::Q::ReliableFIFO, Sidekiq, RQ, BullMQ."""

from __future__ import annotations

import json
import zlib
from typing import ClassVar

from claimq.model import NewItem
from claimq_cli.migration.layout import (
    Entry,
    Job,
    Kept,
    Layout,
    LeftAlone,
    OfAnotherQueue,
    Order,
    Place,
    checked_id,
    json_object,
    text_of,
)

_LARGEST_JOB = 64 * 1024 * 1024
"""Bytes of a job of RQ after decompression."""


class PlainList(Layout):
    """A list of payloads. Equal entries are separate items."""

    kind: ClassVar[str] = "list"

    def __init__(self, name: str, next_end: Order) -> None:
        super().__init__(name, (Place(name, next_end, "waiting"),))

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The value is the payload."""
        del job
        return NewItem(entry.value)


class ReliableFIFO(Layout):
    """A queue of Perl's Queue::Q::ReliableFIFO::Redis: JSON objects whose field ``b`` is what was enqueued."""

    kind: ClassVar[str] = "fifo"

    def __init__(self, name: str) -> None:
        left = (LeftAlone(f"{name}_busy", "list", "busy"), LeftAlone(f"{name}_failed", "list", "failed"))
        super().__init__(name, (Place(f"{name}_main", Order.RIGHT, "waiting"),), left)

    def item(self, entry: Entry, job: Job) -> NewItem:
        """Text becomes the payload as it is, other data its JSON."""
        del job
        fields = json_object(entry.value, "the entry")
        if "b" not in fields:
            raise Kept("the entry has no field b")
        data = fields["b"]
        return NewItem(data if isinstance(data, str) else _json(data))


class Sidekiq(Layout):
    """A queue of Sidekiq, with its jobs in the sets ``schedule`` and ``retry``."""

    kind: ClassVar[str] = "sidekiq"

    def __init__(self, name: str, prefix: str) -> None:
        start = f"{prefix}:" if prefix else ""
        places = (
            Place(f"{start}queue:{name}", Order.RIGHT, "waiting"),
            Place(f"{start}schedule", Order.SCORES, "scheduled"),
            Place(f"{start}retry", Order.SCORES, "to be retried"),
        )
        super().__init__(name, places, (LeftAlone(f"{start}dead", "zset", "dead (of all queues)"),))
        self.index = (f"{start}queues", name)

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The payload is the JSON that Sidekiq wrote; the id is its ``jid``."""
        del job
        fields = json_object(entry.value, "the job")
        if entry.score is not None and fields.get("queue") != self.name:
            raise OfAnotherQueue
        jid = fields.get("jid")
        if not isinstance(jid, str):
            raise Kept("the job has no jid")
        return NewItem(entry.value, id=checked_id(jid), at=self.due_at(entry))


class RQ(Layout):
    """A queue of RQ: ids in a list, each job in a hash; scheduled jobs in a registry."""

    kind: ClassVar[str] = "rq"
    has_job_hashes: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        places = (
            Place(f"rq:queue:{name}", Order.LEFT, "waiting"),
            Place(f"rq:scheduled:{name}", Order.SCORES, "scheduled"),
        )
        left = (
            LeftAlone(f"rq:queue:{name}:intermediate", "list", "being fetched by a worker"),
            LeftAlone(f"rq:wip:{name}", "zset", "started"),
            LeftAlone(f"rq:deferred:{name}", "zset", "deferred until another job ends"),
            LeftAlone(f"rq:failed:{name}", "zset", "failed"),
        )
        super().__init__(name, places, left)
        self.index = ("rq:queues", f"rq:queue:{name}")

    def job_keys(self, entry: Entry) -> tuple[str, ...]:
        """The job's hash."""
        return (f"rq:job:{text_of(entry.value)}",)

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The payload is what RQ's serializer wrote, decompressed: function, instance, arguments, keyword arguments."""
        data = job.get(b"data")
        if data is None:
            raise Kept("its hash rq:job:ID is missing or has no data")
        return NewItem(_inflated(data), id=checked_id(text_of(entry.value)), at=self.due_at(entry))


class BullMQ(Layout):
    """A queue of BullMQ: ids in lists and sorted sets, each job in a hash."""

    kind: ClassVar[str] = "bullmq"
    has_job_hashes: ClassVar[bool] = True

    def __init__(self, name: str, prefix: str) -> None:
        self.start = start = f"{prefix or 'bull'}:{name}:"
        places = (
            Place(f"{start}wait", Order.RIGHT, "waiting"),
            Place(f"{start}paused", Order.RIGHT, "paused"),
            Place(f"{start}prioritized", Order.SCORES, "prioritized"),
            Place(f"{start}delayed", Order.SCORES, "delayed"),
        )
        left = (
            LeftAlone(f"{start}active", "list", "active"),
            LeftAlone(f"{start}waiting-children", "zset", "waiting for children"),
            LeftAlone(f"{start}repeat", "zset", "schedules of repeated jobs"),
            LeftAlone(f"{start}failed", "zset", "failed"),
        )
        super().__init__(name, places, left)

    def job_keys(self, entry: Entry) -> tuple[str, ...]:
        """The job's hash and its log."""
        key = f"{self.start}{text_of(entry.value)}"
        return (key, f"{key}:logs")

    def due_at(self, entry: Entry) -> float | None:
        """Delayed jobs have scores of 4096 times the due time in milliseconds; other scores are priorities."""
        if entry.score is None or self.places[entry.place].label != "delayed":
            return None
        return entry.score / 4096 / 1000

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The payload is a JSON object with the job's ``name``, ``data`` and ``opts``."""
        job_id = text_of(entry.value)
        if job_id.startswith("0:"):
            raise OfAnotherQueue  # the marker of older releases, which is no job
        if b"data" not in job:
            raise Kept("its hash is missing or has no data")
        if b"parentKey" in job:
            raise Kept("it is the child of a flow, whose parent waits for it")
        name = json.dumps(job.get(b"name", b"").decode("utf-8", "replace")).encode()
        payload = b'{"name":%b,"data":%b,"opts":%b}' % (name, job[b"data"], job.get(b"opts", b"{}"))
        return NewItem(payload, id=checked_id(f"{self.name}:{job_id}"), at=self.due_at(entry))


def _json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _inflated(data: bytes) -> bytes:
    """The decompressed data of a job of RQ; older releases did not compress. Raises Kept if it is too large."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, _LARGEST_JOB)
    except zlib.error:
        return data
    if unpacker.unconsumed_tail:
        raise Kept("its data is larger than 64 MiB")
    return found
