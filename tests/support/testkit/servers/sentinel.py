"""A primary, two replicas and three sentinels: what a failover needs."""

import secrets
from pathlib import Path
from typing import Self

from testkit.servers.resp import ReplyError
from testkit.servers.server import PortTaken, Server
from testkit.servers.started import Started
from testkit.waiting import PATIENCE, eventually_sync

DOWN_AFTER_MS = 600_000
"""Sentinels fail over only when a test asks for it: a server that a busy machine does not run for some seconds is not
dead."""
FAILOVER_TIMEOUT_MS = 6000
QUORUM = 2


class Sentinel(Started):
    """`servers` (any of them may be the primary at a time) under the eyes of `sentinels`."""

    def __init__(self, flavour: str = "valkey", *, replicas: int = 2) -> None:
        """Does not start it. ServerMissing when the machine has no such program."""
        # A name that no other group has: sentinels believe what they hear of a name from any server they know, also
        # from one that took over the port of a server that was killed.
        self.name = f"primary-{secrets.token_hex(4)}"
        options = {"repl-diskless-sync-delay": "0", "repl-timeout": "5"}
        self.servers = [Server(flavour, dict(options), tcp=True) for _ in range(replicas + 1)]
        self.sentinels = [Server(flavour, sentinel=True) for _ in range(3)]

    @property
    def url(self) -> str:
        """All sentinels, in the form that claimq.connect takes."""
        return (
            "redis+sentinel://"
            + ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
            + f"/{self.name}/0"
        )

    def start(self) -> Self:
        """Starts all, and waits until the replicas follow and the sentinels know each other."""
        primary, *replicas = self.servers
        primary.start()
        for replica in replicas:
            replica.options["replicaof"] = f"127.0.0.1 {primary.port}"
            replica.start()
        eventually_sync(lambda: self._followers(primary) == len(replicas), needs=self.servers)
        self._start_sentinels()
        eventually_sync(lambda: all(map(self._can_fail_over, self.sentinels)), needs=self.sentinels)
        return self

    def _start_sentinels(self) -> None:
        """Starts them, all on other ports if another program has taken one: each names the ports of the others."""
        for attempts_left in (2, 1, 0):
            ids = [secrets.token_hex(20) for _ in self.sentinels]
            try:
                for watcher, own_id in zip(self.sentinels, ids, strict=True):
                    self._write_config(watcher, own_id, ids)
                    watcher.start()
            except PortTaken:
                if not attempts_left:
                    raise
                for watcher in self.sentinels:
                    watcher.kill9()
                    watcher.change_port()
            else:
                return

    def _write_config(self, watcher: Server, own_id: str, ids: list[str]) -> None:
        """All that sentinels find out in their first seconds, set at once."""
        known = [f"sentinel known-replica {self.name} 127.0.0.1 {one.port}" for one in self.servers[1:]]
        for other, other_id in zip(self.sentinels, ids, strict=True):
            if other is not watcher:
                known.append(f"sentinel known-sentinel {self.name} 127.0.0.1 {other.port} {other_id}")
        lines = [
            f"port {watcher.port}",
            "bind 127.0.0.1",
            f"unixsocket {watcher.unix_path}",
            f"dir {watcher.dir}",
            f"sentinel myid {own_id}",
            f"sentinel monitor {self.name} 127.0.0.1 {self.servers[0].port} {QUORUM}",
            f"sentinel down-after-milliseconds {self.name} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {self.name} {FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {self.name} 2",
            *known,
        ]
        Path(watcher.dir / "conf").write_text("\n".join(lines) + "\n")

    def primary(self) -> Server:
        """Who all sentinels that answer hold for the primary now; LookupError while they do not agree."""
        named = {port for watcher in self.sentinels if (port := _named_port(watcher, self.name)) is not None}
        if len(named) != 1:
            raise LookupError(f"the sentinels name {len(named)} primaries")
        return next(server for server in self.servers if server.port in named)

    def fail_over(self, within: float = PATIENCE) -> Server:
        """Kills the primary and lets the sentinels replace it; returns the new one, when it takes writes and all
        sentinels agree."""
        old = self.primary()
        old.kill9()
        return self._wait_for_successor(old, within)

    def hand_over(self, within: float = PATIENCE) -> Server:
        """Lets the sentinels demote the live primary; returns the new one, when the old one refuses writes."""
        old = self.primary()
        new = self._wait_for_successor(old, within)
        # The sentinels inform the old one too, up to ten seconds later.
        old.call("REPLICAOF", "127.0.0.1", new.port)
        eventually_sync(lambda: _role(old) == b"slave", within=within, why="the old primary is a replica")
        return new

    def _wait_for_successor(self, old: Server, within: float) -> Server:
        def successor() -> Server | None:
            self._request_failover(old)
            try:
                new = self.primary()
            except LookupError:
                return None
            return new if new is not old and _role(new) == b"master" and self._is_settled() else None

        found = eventually_sync(successor, within=within, why="the sentinels made another server the primary")
        assert found is not None
        return found

    def _request_failover(self, old: Server) -> None:
        """Asks the first sentinel for it, unless it has begun already. AssertionError while no replica has been in
        touch with it, as after a pause."""
        fields = self._seen_by(self.sentinels[0])
        if b"failover_in_progress" in fields[b"flags"] or fields[b"port"] != b"%d" % old.port:
            return
        try:
            self.sentinels[0].call("SENTINEL", "FAILOVER", self.name)
        except ReplyError as error:
            raise AssertionError(str(error)) from error

    def _is_settled(self) -> bool:
        """No sentinel is in the middle of a failover, and all are at the same one."""
        seen = [self._seen_by(one) for one in self.sentinels]
        return {one[b"flags"] for one in seen} == {b"master"} and len(
            {one[b"config-epoch"] for one in seen}
        ) == 1

    def _seen_by(self, watcher: Server) -> dict[bytes, bytes]:
        """The fields of the primary as a sentinel sees it."""
        reply = watcher.call("SENTINEL", "MASTER", self.name)
        assert isinstance(reply, list)
        words = [word for word in reply if isinstance(word, bytes)]
        return dict(zip(words[::2], words[1::2], strict=True))

    def close(self) -> None:
        """Kills all of them and removes their directories."""
        for one in (*self.sentinels, *self.servers):
            one.close()

    @staticmethod
    def _followers(primary: Server) -> int:
        text = primary.call("INFO", "replication")
        assert isinstance(text, bytes)
        return text.count(b"state=online")

    def _can_fail_over(self, watcher: Server) -> bool:
        try:
            answer = str(watcher.call("SENTINEL", "CKQUORUM", self.name))
        except (OSError, ReplyError) as error:
            raise AssertionError(f"sentinel {watcher.port}: {error}") from error
        assert answer.startswith("b'OK 3"), f"sentinel {watcher.port}: {answer}"
        return True


def _named_port(watcher: Server, name: str) -> int | None:
    try:
        answer = watcher.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
    except (OSError, ReplyError):
        return None
    return int(str(answer[1], "ascii")) if isinstance(answer, list) and isinstance(answer[1], bytes) else None


def _role(server: Server) -> object:
    try:
        answer = server.call("ROLE")
    except (OSError, ReplyError):
        return None
    return answer[0] if isinstance(answer, list) else None
