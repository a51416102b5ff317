"""The layouts of the queue systems that can be imported: plain lists, Queue::Q::ReliableFIFO, Sidekiq, RQ, BullMQ."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import ClassVar

from claimq.model import NewItem
from claimq_cli.migration.layout import (
    JSON,
    Entry,
    Job,
    Kept,
    Layout,
    LeftAlone,
    OfAnotherQueue,
    Order,
    Place,
    json_object,
    members,
    text_of,
)

_LARGEST_JOB = 64 * 1024 * 1024
"""Bytes of a job of RQ after decompression."""


class PlainList(Layout):
    """A list of payloads. Equal entries are separate items."""

    kind: ClassVar[str] = "list"

    def __init__(self, name: str, next_end: Order) -> None:
        super().__init__(name, (Place(name, next_end, "waiting"),))
        self.search = ("*", "(?P<name>.*)")

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The value is the payload."""
        del job
        return NewItem(entry.value)


class ReliableFIFO(Layout):
    """A queue of Perl's Queue::Q::ReliableFIFO::Redis: JSON objects whose field ``b`` is what was enqueued."""

    kind: ClassVar[str] = "fifo"

    def __init__(self, name: str) -> None:
        left_alone = (
            LeftAlone(f"{name}_busy", "list", "busy"),
            LeftAlone(f"{name}_failed", "list", "failed"),
        )
        super().__init__(name, (Place(f"{name}_main", Order.RIGHT, "waiting"),), left_alone)
        self.search = ("*_main", "(?P<name>.*)_main")

    def item(self, entry: Entry, job: Job) -> NewItem:
        """Text becomes the payload as it is, other data its JSON as it is written."""
        del job
        fields = json_object(entry.value, "the entry")
        values = [member for name, member in members(entry.value.decode()) if name == "b"]
        if len(values) != 1:
            raise Kept("the entry has two fields b" if values else "the entry has no field b")
        return NewItem(fields["b"] if isinstance(fields["b"], str) else values[0])


class Sidekiq(Layout):
    """A queue of Sidekiq, with its jobs in the sets ``schedule`` and ``retry``."""

    kind: ClassVar[str] = "sidekiq"

    def __init__(self, name: str, prefix: str) -> None:
        start = f"{prefix}:" if prefix else ""
        places = (
            Place(f"{start}queue:{name}", Order.RIGHT, "waiting"),
            Place(f"{start}schedule", Order.SCORES, "scheduled", is_shared=True),
            Place(f"{start}retry", Order.SCORES, "to be retried", is_shared=True),
        )
        left_alone = LeftAlone(f"{start}dead", "zset", "dead (of all queues)", is_shared=True)
        super().__init__(name, places, (left_alone,))
        self._start = start
        self.index = (f"{start}queues", name)
        self.search = ("*queue:*", "(?:(?P<prefix>.*):)?queue:(?P<name>.*)")

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The payload is the JSON that Sidekiq wrote; the id is its ``jid``."""
        del job
        fields = json_object(entry.value, "the job")
        if entry.score is not None and fields.get("queue") != self.name:
            raise OfAnotherQueue
        jid = fields.get("jid")
        if not isinstance(jid, str):
            raise Kept("the job has no jid")
        return NewItem(entry.value, id=jid, at=self.due_at(entry))

    def blockers(self, entry: Entry, job: Job) -> Mapping[bytes, str]:
        """The cursor of an iterable job that has begun (Sidekiq 7.3 and later)."""
        del job
        try:
            jid = str(json_object(entry.value, "the job").get("jid"))
        except Kept:
            return {}
        key = f"{self._start}it-{jid}".encode("utf-8", "surrogatepass")
        return {key: "it is an iterable job that has begun, with its cursor in it-JID; let Sidekiq finish it"}

    def created_at(self, entry: Entry, job: Job) -> bytes:
        """Seconds or milliseconds, by the release of Sidekiq."""
        del job
        return str(json_object(entry.value, "the job").get("created_at")).encode()


class RQ(Layout):
    """A queue of RQ: ids in a list, each job in a hash; scheduled jobs in a registry."""

    kind: ClassVar[str] = "rq"
    has_job_hashes: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        places = (
            Place(f"rq:queue:{name}", Order.LEFT, "waiting"),
            Place(f"rq:scheduled:{name}", Order.SCORES, "scheduled"),
        )
        left_alone = (
            LeftAlone(f"rq:queue:{name}:intermediate", "list", "being fetched by a worker"),
            LeftAlone(f"rq:wip:{name}", "zset", "started"),
            LeftAlone(f"rq:deferred:{name}", "zset", "deferred until another job ends"),
            LeftAlone(f"rq:failed:{name}", "zset", "failed"),
            LeftAlone(
                "rq:scheduler:scheduled_jobs",
                "zset",
                "scheduled by rq-scheduler (of all queues)",
                is_shared=True,
            ),
            LeftAlone("rq:rl-keys", "rq-limits", "held back by a rate limit (of all queues)", is_shared=True),
        )
        super().__init__(name, places, left_alone)
        self.index = ("rq:queues", f"rq:queue:{name}")
        self.search = ("rq:queue:*", "rq:queue:(?P<name>(?!.*:intermediate$).*)")

    def job_keys(self, entry: Entry) -> tuple[bytes, ...]:
        """The job's hash."""
        return (b"rq:job:" + entry.value,)

    def blockers(self, entry: Entry, job: Job) -> Mapping[bytes, str]:
        """The set of the jobs that begin when this one ends."""
        del job
        key = b"rq:job:%b:dependents" % entry.value
        return {key: "other jobs of RQ wait for it (rq:job:ID:dependents); let RQ finish it"}

    def item(self, entry: Entry, job: Job) -> NewItem:
        """The payload is what RQ's serializer wrote, decompressed: function, instance, arguments, keyword arguments."""
        compressed = job.get(b"data")
        if compressed is None:
            raise Kept("its hash rq:job:ID is missing or has no data")
        if job.get(b"rate_limit_key"):
            raise Kept("it has a rate limit of RQ, and others may wait for its slot; let RQ finish it")
        return NewItem(_inflated(compressed), id=text_of(entry.value), at=self.due_at(entry))

    def created_at(self, entry: Entry, job: Job) -> bytes:
        """ISO 8601."""
        del entry
        return job.get(b"created_at", b"")


class BullMQ(Layout):
    """A queue of BullMQ: ids in lists and sorted sets, each job in a hash."""

    kind: ClassVar[str] = "bullmq"
    has_job_hashes: ClassVar[bool] = True

    def __init__(self, name: str, prefix: str) -> None:
        self.start = start = f"{prefix or 'bull'}:{name}:"
        places = (
            # Releases before 6 kept waiting jobs in the list paused; what a later one added waits behind them.
            Place(f"{start}paused", Order.RIGHT, "paused"),
            Place(f"{start}wait", Order.RIGHT, "waiting"),
            Place(f"{start}prioritized", Order.SCORES, "prioritized"),
            Place(f"{start}delayed", Order.SCORES, "delayed"),
        )
        left_alone = (
            LeftAlone(f"{start}active", "list", "active"),
            LeftAlone(
                f"{start}active", "bullmq-newer", "newest of a deduplication, waiting for an active job"
            ),
            LeftAlone(f"{start}waiting-children", "zset", "waiting for children"),
            LeftAlone(f"{start}repeat", "zset", "schedules of repeated jobs"),
            LeftAlone(f"{start}failed", "zset", "failed"),
        )
        super().__init__(name, places, left_alone)

        self.signs = (f"{start}meta", f"{start}id")
        self.search = ("*:meta", "(?P<prefix>.*):(?P<name>[^:]*):meta")

    def job_keys(self, entry: Entry) -> tuple[bytes, ...]:
        """The job's hash and its log."""
        key = self.start.encode() + entry.value
        return (key, key + b":logs")

    def blockers(self, entry: Entry, job: Job) -> Mapping[bytes, str]:
        """The results of the children of a flow, and the newer job of a deduplication that keeps the last one."""
        key = self.start.encode() + entry.value
        reasons = {key + b":processed": "its children's results are in :ID:processed; let BullMQ finish it"}
        if newer := job.get(b"deid"):
            reasons[b"%bdn:%b" % (self.start.encode(), newer)] = (
                "a newer job of its deduplication waits for its end (:dn:ID); let BullMQ finish it"
            )
        return reasons

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
        try:
            name = json.dumps(job.get(b"name", b"").decode()).encode()
        except UnicodeDecodeError:
            raise Kept("its name is not UTF-8") from None
        data, opts = _checked_json("data", job[b"data"]), _checked_json("opts", job.get(b"opts", b"{}"))
        payload = b'{"name":%b,"data":%b,"opts":%b}' % (name, data, opts)
        return NewItem(payload, id=f"{self.name}:{job_id}", at=self.due_at(entry))

    def created_at(self, entry: Entry, job: Job) -> bytes:
        """Unix milliseconds."""
        del entry
        return job.get(b"timestamp", b"")


def _checked_json(field: str, text: bytes) -> bytes:
    """The value of a field of BullMQ, if it is JSON. Raises Kept."""
    try:
        JSON.decode(text.decode())
    except RecursionError:
        pass  # it has more levels than Python reads
    except ValueError:
        raise Kept(f"its {field} is not JSON") from None
    return text


def _inflated(compressed: bytes) -> bytes:
    """The decompressed data of a job of RQ; older releases did not compress. Raises Kept if it is damaged or too
    large."""
    is_compressed = compressed[:1] == b"\x78" and int.from_bytes(compressed[:2], "big") % 31 == 0
    if not is_compressed:
        return compressed
    unpacker = zlib.decompressobj()
    try:
        payload = unpacker.decompress(compressed, _LARGEST_JOB + 1)
    except zlib.error:
        raise Kept("its data is damaged: it cannot be decompressed") from None
    if len(payload) > _LARGEST_JOB:
        raise Kept("its data is larger than 64 MiB")
    if not unpacker.eof or unpacker.unused_data:
        raise Kept("its data is damaged: the end of the compressed data is missing or wrong")
    return payload
