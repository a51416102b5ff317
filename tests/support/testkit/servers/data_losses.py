"""Ways for a server to lose its last writes: `mark` fixes what survives, `lose` loses the rest."""

import shutil
from typing import Protocol

from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_blocking_server
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

MARKER = "cq:{q}:marker-of-the-test"


class Loss(Protocol):
    """A server (or several) at `url` with the queue `q`."""

    url: str

    def mark(self) -> None:
        """What was written until now survives, where anything does."""
        ...

    def lose(self) -> None:
        """What was written since the mark is gone; the server answers again."""
        ...


def info(server: Server, section: str = "replication") -> str:
    """INFO of a server."""
    text = server.call("INFO", section)
    assert isinstance(text, bytes)
    return text.decode()


def wait_for_marker(primary: Server, replicas: list[Server]) -> None:
    """Waits until the replicas have all that the primary wrote before this call."""
    primary.call("SET", MARKER, "x")
    primary_id = dict(line.split(":", 1) for line in info(primary).splitlines() if ":" in line)
    offset = int(primary_id["master_repl_offset"])

    def has_all(replica: Server) -> bool:
        lines = dict(line.split(":", 1) for line in info(replica).splitlines() if ":" in line)
        return int(lines["slave_repl_offset"]) >= offset

    eventually_sync(lambda: all(map(has_all, replicas)), why="the replicas have it all")


def cut_off(primary: Server, replicas: list[Server]) -> None:
    """The replicas get nothing more from the primary: they log in with a password that it does not know."""
    wait_for_marker(primary, replicas)
    for replica in replicas:
        replica.call("CONFIG", "SET", "masterauth", "wrong")
    primary.call("CLIENT", "KILL", "TYPE", "replica")
    eventually_sync(lambda: all("master_link_status:down" in info(one) for one in replicas))


class Flushed:
    """FLUSHALL: nothing survives."""

    def __init__(self, server: Server) -> None:
        """Of this server."""
        self._server, self.url = server, server.url

    def mark(self) -> None:
        """Nothing survives."""

    def lose(self) -> None:
        """FLUSHALL."""
        self._server.call("FLUSHALL")


class Restarted(Flushed):
    """A SIGKILL of a server that keeps nothing on disk."""

    def lose(self) -> None:
        """Kills and starts it."""
        self._server.kill9()
        self._server.start()


class Recreated(Flushed):
    """The queue is deleted, and made again by its next user."""

    def lose(self) -> None:
        """By the library."""
        with open_blocking_server(self.url) as store:
            store.queue("q").flush()
            store.queue("q").delete()


class OlderAof(Flushed):
    """An older copy of the append-only file is restored."""

    def mark(self) -> None:
        """Copies the files, with the server at rest."""
        self._server.sigstop()
        shutil.copytree(self._server.dir / "appendonlydir", self._server.dir / "backup")
        self._server.sigcont()

    def lose(self) -> None:
        """Kills the server, puts the copy in place and starts it."""
        self._server.kill9()
        shutil.rmtree(self._server.dir / "appendonlydir")
        shutil.move(self._server.dir / "backup", self._server.dir / "appendonlydir")
        self._server.start()


class Promoted:
    """A replica that lags takes the place of its primary: by hand, at the same address."""

    def __init__(self, primary: Server, replica: Server) -> None:
        """The replica follows the primary already, or will."""
        self._primary, self._replica, self.url = primary, replica, primary.url

    def mark(self) -> None:
        """The replica follows no more."""
        wait_for_marker(self._primary, [self._replica])
        self._replica.call("REPLICAOF", "NO", "ONE")

    def lose(self) -> None:
        """The primary dies, and the replica answers in its place."""
        self._primary.kill9()
        self._replica.unix_path.rename(self._primary.unix_path)


class FailedOver:
    """The sentinels promote a replica that lags."""

    def __init__(self, sentinel: Sentinel) -> None:
        """With its replicas in step."""
        self._sentinel, self.url = sentinel, sentinel.url

    def mark(self) -> None:
        """No replica follows any more."""
        primary = self._sentinel.primary()
        cut_off(primary, [one for one in self._sentinel.servers if one is not primary])

    def lose(self) -> None:
        """The primary dies. Its successor has replicas again, so that another failover would lose nothing more."""
        self._sentinel.fail_over()
        for server in self._sentinel.servers:
            if server.is_running:
                server.call("CONFIG", "SET", "masterauth", "")


class TakenOver:
    """A replica that lags takes over in a cluster."""

    def __init__(self, cluster: RedisCluster) -> None:
        """Adds the replica."""
        self._owner, self.url = cluster.owner(MARKER), cluster.url
        self._replica = cluster.add_replica(self._owner)
        self._cluster = cluster

    def mark(self) -> None:
        """The replica follows no more."""
        cut_off(self._owner, [self._replica])

    def lose(self) -> None:
        """The primary dies and the replica takes its slots."""
        self._owner.kill9()
        self._cluster.take_over(self._replica)
