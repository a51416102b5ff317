"""The ReliableQueues of a cluster as the page shows them, and the connections to their servers."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import claimq
from claimq.concurrency.background_work import run_every, spawn
from claimq.errors import ClaimqError, InvalidSpec, StoreMisused, StoreUnavailable
from claimq.redis_store.faults import NOT_DESCRIBED, shows_login
from claimq_admin.by_hand import name_by_hand
from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.cluster.owner_check import OwnerChecks
from claimq_admin.cluster.pod_runner import PodRunner
from claimq_admin.cluster.server_settings import (
    ClusterQueue,
    is_used_by_the_operator,
    queue_of,
    reachable,
    secrets_of,
)
from claimq_admin.errors import CommandError, ForeignQueue, lines_of
from claimq_admin.reads.decisions import decision_of
from claimq_admin.reads.documents import Json
from claimq_admin.text import count as counted
from claimq_control.grants import NO_QUEUE_GRANTS, QueueGrants
from claimq_control.manifest import Manifest, parse_manifest
from claimq_kubernetes.kept import kept_metadata, kept_part
from claimq_kubernetes.port import (
    EVENTS,
    QUEUES,
    SECRETS,
    ClusterError,
    ClusterUnavailable,
    EvictingCluster,
    part,
)
from claimq_kubernetes.secret_entries import InvalidSecretEntry, check_room, kept_entries
from claimq_process.certificates import Certificates
from claimq_web.queues.change_events import ChangeEvents
from claimq_web.queues.limited_reads import SMALL_READ, SMALL_REPLY
from claimq_web.queues.queues import MOST_EVENTS, Group
from claimq_web.users.limits import TooManyRequests

_PERIOD = 10.0
_SETTINGS_SECONDS = 300.0
"""After so long the Secrets of a queue are read again."""
_RETRY_SECONDS = 1.0
_TOGETHER = 100
"""Queues that are read together. Their tenants choose the servers, so the page bounds these reads."""
_LONGEST_TEXT = 1024
"""Characters of the message of an Event."""
_NOT_DESCRIBED = (
    f"{NOT_DESCRIBED}; `claimq doctor NAME -n NAMESPACE` shows which, and so does the log of the page"
)
_SecretKey = tuple[str, str, frozenset[str]]
"""Namespace, name and keys of the entries that were read of a Secret."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """A ReliableQueue. ``queue``: None if it cannot be read, and ``problem`` says why."""

    body: Json
    queue: claimq.ReliableQueue | None
    named: ClusterQueue | None
    problem: str
    read_at: float
    target: float | None = None
    """``spec.scaling.targetAge`` in seconds."""

    @property
    def settings(self) -> claimq.RedisSettings | None:
        """Of the connection to its server."""
        return None if self.named is None else self.named.settings


def command_of(name: str, verb: str) -> str:
    """The command of a user about a queue, with the namespace of its ReliableQueue and the name there."""
    namespace, _, object_name = name.partition(".")
    return f"claimq -n {namespace} {verb} {object_name}"


class ClusterQueues:
    """Reads the ReliableQueues every 10 seconds, and connects to the servers of those that may be used.

    A user who can create a ReliableQueue must not see the queue of another tenant through it. So the page decides what
    the operator decides too: the name of the queue, the hosts of passwords, and the owner on the server's record. The
    status of the object (condition RedisReachable) can only forbid more. The name of a queue on the page is
    ``NAMESPACE.NAME`` of its object.
    """

    when_empty = "There is no ReliableQueue that you may see."
    command = staticmethod(command_of)

    def __init__(
        self,
        cluster: EvictingCluster,
        directory: Path,
        namespaces: Sequence[str] = (),
        grants: QueueGrants = NO_QUEUE_GRANTS,
        *,
        writes_events: bool = True,
    ) -> None:
        """``directory``: for certificates, readable only by this user. ``namespaces``: only these; empty: all.
        ``grants``: those of the operator's settings. ``writes_events``: about changes by hand."""
        self._cluster = cluster
        self._grants = grants
        self._events = ChangeEvents(cluster)
        self._writes_events = writes_events
        self._certificates = Certificates(directory)
        self._namespaces = tuple(namespaces) or (None,)
        self._known: dict[str, _Known] = {}
        self._owners = OwnerChecks()
        self._servers: dict[claimq.RedisSettings, claimq.Server] = {}
        self.problem = ""
        """Why the last reading failed; empty if it did not."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Reads periodically inside the block. An API server that does not answer leaves what is known."""
        name = "ReliableQueues for the web page"
        reading = spawn(run_every(_PERIOD, self._step, name=name, stop=asyncio.Event()), name=name)
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def refresh(self) -> None:
        """Reads the ReliableQueues once. ClusterError."""
        bodies: list[Json] = []
        for namespace in self._namespaces:
            bodies += await self._cluster.list(QUEUES, namespace, keep=_kept)
        read: dict[_SecretKey, Json] = {}
        for body in bodies:
            name = _name_of(body)
            self._known[name] = await self._updated(body, self._known.get(name), read)
            await asyncio.sleep(0)  # reading thousands of manifests takes seconds
        for name in self._known.keys() - map(_name_of, bodies):
            self._events.forget(self._known.pop(name).body["metadata"]["uid"])
            self._owners.forget(name)
        await self._close_unused()
        self._certificates.sweep(self._files())

    async def close(self) -> None:
        """Closes the connections."""
        self._known = {}
        await self._close_unused()

    async def names(self) -> Sequence[str]:
        """The names of the queues that can be read, sorted."""
        return sorted(name for name, entry in self._known.items() if entry.queue is not None)

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        """The queue of a ReliableQueue; None if there is none or it cannot be read."""
        entry = self._known.get(name)
        return None if entry is None else entry.queue

    async def check(self, name: str) -> None:
        """Returns if the server has, or had seconds ago, the object on record as the queue's owner. ClaimqError."""
        entry = self._known.get(name)
        if entry is None or entry.queue is None or entry.named is None:
            raise ForeignQueue(f"{name} cannot be read")
        await self._owners.check(name, entry.queue, entry.named)

    def together(self, names: Sequence[str]) -> Iterable[Group]:
        """Groups of up to 100 queues of one server."""
        by_server: dict[claimq.RedisSettings, dict[str, ClusterQueue]] = {}
        for name in names:
            if (entry := self._known.get(name)) is not None and entry.named is not None:
                by_server.setdefault(entry.named.settings, {})[name] = entry.named
        for settings, of_server in by_server.items():
            rows = [*of_server.items()]
            for page in (dict(rows[begin : begin + _TOGETHER]) for begin in range(0, len(rows), _TOGETHER)):
                yield [*page], partial(self._owners.snapshots, self._servers[settings], page)

    def shown(self, error: ClaimqError) -> ClaimqError:
        """The error, if it shows that the server has accepted the queue's user; otherwise one text for all causes.

        A tenant chooses the address, and the page connects from its own pod: descriptions would make it a scanner of
        ports. The operator's status follows the same rule.
        """
        if not isinstance(error, StoreUnavailable | StoreMisused) or isinstance(error, TooManyRequests):
            return error
        return error if shows_login(error) else StoreUnavailable(_NOT_DESCRIBED)

    def unreadable(self) -> Mapping[str, str]:
        """The ReliableQueues that cannot be read, and why."""
        return {name: entry.problem for name, entry in self._known.items() if entry.queue is None}

    def decisions(self) -> Mapping[str, Json]:
        """The targets, and the last decisions of the operator where there are some."""
        return {
            name: {**decision_of(entry.body), "targetAge": entry.target}
            for name, entry in self._known.items()
            if entry.queue is not None
        }

    def status(self, name: str) -> Json:
        """The status of the object and ``suspend`` of its spec; empty for an unknown one."""
        entry = self._known.get(name)
        if entry is None:
            return {}
        return {**part(entry.body, "status"), "suspend": bool(part(entry.body, "spec").get("suspend"))}

    def servers(self) -> Iterable[claimq.Server]:
        """None: the condition RedisReachable has their warnings, for the users who may see it."""
        return ()

    async def events(self, name: str) -> list[Json]:
        """The latest Events about a queue, newest first; none if they cannot be read."""
        entry = self._known.get(name)
        if entry is None:
            return []
        metadata = entry.body["metadata"]
        try:
            events = await self._cluster.list(
                EVENTS,
                metadata["namespace"],
                keep=_kept_event,
                fields=f"involvedObject.uid={metadata['uid']}",
            )
        except ClusterError as error:
            _log.warning("the Events of %s cannot be read: %s", name, error)
            return []
        events.sort(key=lambda event: event.get("lastTimestamp") or "", reverse=True)
        return events[:MOST_EVENTS]

    def admin(self, name: str, user: str) -> QueueAdmin | None:
        """The queue, for changes that are recorded in its audit log and as Events about its object."""
        queue = self.queue(name)
        if queue is None:
            return None

        async def record(
            action: str, target: str = "", *, count: int | None = None, adds: bool = False
        ) -> None:
            if (current := self.queue(name)) is not None:
                await current.record_action(user, action, target, count=count, adds=adds)
            what = " ".join(word for word in (action, target) if word)
            number = "" if count is None else f" ({counted(count)})"
            if self._writes_events and (entry := self._known.get(name)) is not None:
                await self._events.emit(entry.body["metadata"], user, f"{what}{number}")

        namespace, _, resource = name.partition(".")
        return QueueAdmin(queue, user, record, runner=PodRunner(self._cluster, namespace, resource))

    async def _step(self) -> bool:
        try:
            await self.refresh()
        except ClusterError as error:
            if not self.problem:
                _log.warning("the ReliableQueues cannot be read: %s", error)
            self.problem = str(error)
        else:
            self.problem = ""
        return False

    async def _updated(self, body: Json, old: _Known | None, read: dict[_SecretKey, Json]) -> _Known:
        # Not all at the same time: each pass reads the Secrets of a part.
        read_at = time.monotonic() - _SETTINGS_SECONDS * random.uniform(0.0, 0.5)  # noqa: S311 - no secret
        former = old if old is not None and old.queue and _generation(old.body) == _generation(body) else None
        if not is_used_by_the_operator(body):
            if former and _reason(body) == "Unreachable":
                return replace(former, body=body)
            return _Known(body, None, None, _message(body), read_at)
        if former and time.monotonic() - former.read_at < _SETTINGS_SECONDS:
            return replace(former, body=body)
        try:
            manifest = parse_manifest(body, stored=True)
            _check_name(manifest, self._grants)
            entries = {
                secret: await self._secret(manifest.namespace, secret, keys, read)
                for secret, keys in secrets_of(manifest).items()
            }
            other_paths = self._files(manifest.namespace, without=_name_of(body))
            description = queue_of(
                manifest,
                body,
                entries,
                self._certificates,
                other_paths=other_paths,
                hosts=self._grants.password_hosts,
                retry_for=_RETRY_SECONDS,
            )
        except (CommandError, InvalidSpec, ClusterError) as error:
            if former and isinstance(error, ClusterUnavailable):
                # Go on with the Secrets that were read before.
                return replace(former, body=body)
            return _Known(body, None, None, "; ".join(lines_of(error)), read_at)
        settings = replace(description.settings, largest_reply=SMALL_REPLY, read_bounds=SMALL_READ)
        if settings not in self._servers:
            self._servers[settings] = claimq.connect(settings=settings)
        queue = self._servers[settings].queue(description.queue_name, worker=name_by_hand())
        named, target = replace(description, settings=settings), manifest.spec.scaling.target_age
        return _Known(body, queue, named, "", read_at, target)

    def _files(self, namespace: str = "", *, without: str = "") -> set[str]:
        """The certificates that the queues of a namespace or of all use, but for one of them."""
        return {
            file
            for name, entry in self._known.items()
            if entry.settings and name != without and namespace in ("", name.partition(".")[0])
            for file in entry.settings.files
        }

    async def _secret(
        self, namespace: str, name: str, keys: frozenset[str], read: dict[_SecretKey, Json]
    ) -> Json:
        """The entries with these keys, and only them: tenants choose the size of the rest."""
        key = (namespace, name, keys)
        if key not in read:
            entries = part(await self._cluster.get(SECRETS, namespace, name), "data")
            needed_entries = kept_entries(entries, keys)
            try:
                check_room(
                    name,
                    namespace,
                    needed_entries,
                    (secret_entries for other, secret_entries in read.items() if other[0] == namespace),
                )
            except InvalidSecretEntry as error:
                raise CommandError(str(error)) from error
            read[key] = needed_entries
        return read[key]

    async def _close_unused(self) -> None:
        used = {entry.settings for entry in self._known.values()}
        for settings in [unused for unused in self._servers if unused not in used]:
            await self._servers.pop(settings).close()


def _check_name(manifest: Manifest, grants: QueueGrants) -> None:
    """CommandError for a name on the server that the namespace may not use."""
    name, namespace = manifest.spec.queue_name, manifest.namespace
    if not grants.allows_name(namespace, name):
        raise CommandError(f'spec.queueName: "{name}" does not begin with "{namespace}."')


def _name_of(body: Json) -> str:
    metadata = body["metadata"]
    return f"{metadata['namespace']}.{metadata['name']}"


def _generation(body: Json) -> tuple[str, int]:
    """Identifies the object and its spec."""
    metadata = body["metadata"]
    return str(metadata.get("uid")), int(metadata.get("generation") or 0)


def _reason(body: Json) -> str:
    return str(reachable(body).get("reason") or "")


def _message(body: Json) -> str:
    """Why the operator does not use the server and the queue that the object names."""
    condition = reachable(body)
    if condition.get("observedGeneration") != body["metadata"].get("generation"):
        return "the operator has not accepted its spec yet"
    return f"{condition.get('reason')}: {condition.get('message')}"


def _kept_event(body: Json) -> Json:
    """What the page shows of an Event."""
    fields: Json = {name: body[name] for name in ("lastTimestamp", "count") if name in body}
    texts = {name: str(body.get(name) or "")[:_LONGEST_TEXT] for name in ("reason", "message")}
    return {**fields, **texts}


def _kept(body: Json) -> Json:
    """The fields that are used, within bounds. No queue is read through a spec over its bound."""
    part(part(body, "spec"), "worker").pop("template", None)
    parts = {name: kept_part(body, name) for name in ("spec", "status")}
    return {**body, "metadata": kept_metadata(body), **parts}
