"""The servers of a case: one, a primary with a replica, a group with Sentinel, a cluster of six."""

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence

from claimq_faults.load import QUEUE
from testkit.servers.cluster import RedisCluster
from testkit.servers.fsyncs import NotedServer
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server
from testkit.servers.started import Started
from testkit.waiting import eventually_sync

MAIN = f"cq:{{{QUEUE}}}:main"
_ORDER_AGAIN = 10.0
"""Seconds. Redis and Valkey give up a handover after 5 s."""
_REPLICA = {"repl-diskless-sync-delay": "0"}


class Servers(Started):
    """Servers with the queue at ``url``."""

    url: str

    @abstractmethod
    def primary(self) -> Server:
        """The server that has the queue now."""

    @abstractmethod
    def all(self) -> Sequence[Server]:
        """All that have data."""

    def fail_over(self) -> None:
        """The primary dies, a replica takes over, and the old primary comes back as its replica."""
        raise NotImplementedError

    def hand_over(self) -> None:
        """A replica takes over while the primary lives."""
        raise NotImplementedError

    def close(self) -> None:
        for server in self.all():
            server.close()


class Single(Servers):
    """One server, or a primary with a replica, whose fsyncs are noted."""

    def __init__(self, flavour: str, options: Mapping[str, str], *, replicas: int = 0) -> None:
        self._servers = [NotedServer(flavour, {**_REPLICA, **options}, tcp=True) for _ in range(replicas + 1)]
        self.url = ""

    def start(self) -> "Single":
        primary, *replicas = self._servers
        primary.start()
        for replica in replicas:
            replica.options["replicaof"] = f"127.0.0.1 {primary.port}"
            replica.start()
            wait_for_link(replica)
        self.url = primary.tcp_url
        return self

    def primary(self) -> NotedServer:
        return self._servers[0]

    def all(self) -> Sequence[NotedServer]:
        return self._servers


class Watched(Servers):
    """A primary with a replica, watched by three sentinels."""

    def __init__(self, flavour: str, options: Mapping[str, str]) -> None:
        self._group = Sentinel(flavour, replicas=1)
        for server in self._group.servers:
            server.options |= options
        self.url = ""

    def start(self) -> "Watched":
        self._group.start()
        self.url = self._group.url
        return self

    def primary(self) -> Server:
        return self._group.primary()

    def all(self) -> Sequence[Server]:
        return self._group.servers

    def fail_over(self) -> None:
        old = self.primary()
        new = self._group.fail_over()
        old.options["replicaof"] = f"127.0.0.1 {new.port}"
        new.options.pop("replicaof", None)
        old.start()
        wait_for_link(old)

    def hand_over(self) -> None:
        old = self.primary()
        self._group.hand_over()
        wait_for_link(old)

    def close(self) -> None:
        self._group.close()


class Clustered(Servers):
    """Three primaries with a replica each."""

    def __init__(self, flavour: str, options: Mapping[str, str]) -> None:
        self._cluster = RedisCluster(flavour)
        self._options = options
        self._pairs: list[tuple[Server, Server]] = []
        """Primary and replica."""
        self.url = self._cluster.url

    def start(self) -> "Clustered":
        for node in self._cluster.nodes:
            node.options |= {**_REPLICA, **self._options}
        self._cluster.start()
        for node in self._cluster.nodes:
            replica = self._cluster.add_replica(node)
            for name, value in self._options.items():
                replica.call("CONFIG", "SET", name, value)
            replica.options |= self._options
            self._pairs.append((node, replica))
        self.url = self._cluster.url
        return self

    def primary(self) -> Server:
        return self._pairs[self._at()][0]

    def _at(self) -> int:
        slot = self._cluster.slot(MAIN)
        return next(
            number for number, (node, _) in enumerate(self._pairs) if slot in self._cluster.slots_of(node)
        )

    def all(self) -> Sequence[Server]:
        return (*self._cluster.nodes, *self._cluster.replicas)

    def fail_over(self) -> None:
        at = self._at()
        old, new = self._pairs[at]
        old.kill9()
        self._cluster.take_over(new)
        old.start()
        self._pairs[at] = (new, old)
        wait_for_link(old)

    def hand_over(self) -> None:
        at = self._at()
        old, new = self._pairs[at]
        self._promote(new)
        self._pairs[at] = (new, old)
        wait_for_link(old)

    @staticmethod
    def _promote(new: Server) -> None:
        """Orders it again where the server gave it up, as one does after 5 s on a busy machine."""
        ordered_at = float("-inf")

        def has_taken_over() -> bool:
            nonlocal ordered_at
            if b"role:master" in _replication(new):
                return True
            if time.monotonic() > ordered_at + _ORDER_AGAIN:
                ordered_at = time.monotonic()
                new.call("CLUSTER", "FAILOVER")
            return False

        eventually_sync(has_taken_over, why="the replica has taken over")

    def move_slot(self) -> None:
        """To the next primary, with all that is in it."""
        at = self._at()
        self._cluster.move_slot(MAIN, self._pairs[(at + 1) % len(self._pairs)][0])

    def close(self) -> None:
        self._cluster.close()


def wait_for_link(replica: Server) -> None:
    """Until a replica follows its primary."""
    eventually_sync(lambda: b"master_link_status:up" in _replication(replica), why="the replica follows")


def _replication(server: Server) -> bytes:
    try:
        text = server.call("INFO", "replication")
    except OSError:
        return b""
    return text if isinstance(text, bytes) else b""
