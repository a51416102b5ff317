"""A real cluster of three: slots given out by our own code, no tool of the servers' needed."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Self

from testkit.programs.ports import free_port
from testkit.servers.resp import Reply, ReplyError
from testkit.servers.server import Server
from testkit.servers.started import Started
from testkit.waiting import eventually_sync

SLOTS = 16384
NODE_TIMEOUT_MS = 15_000
"""A node that a busy machine does not run for some seconds does not take the cluster down."""


class RedisCluster(Started):
    """Three primaries, each with a third of the slots."""

    def __init__(self, flavour: str = "valkey", *, nodes: int = 3) -> None:
        """Does not start it. ServerMissing when the machine has no such program."""
        self.flavour = flavour
        self.nodes = [self._node(flavour) for _ in range(nodes)]
        self.replicas: list[Server] = []
        self._is_formed = False

    @staticmethod
    def _node(flavour: str) -> Server:
        options = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "cluster-port": str(free_port()),
            "cluster-config-file": "nodes.conf",
        }
        return Server(flavour, options, tcp=True)

    @property
    def url(self) -> str:
        """All nodes, in the form that claimq.connect takes."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self) -> Self:
        """Starts the nodes that do not run, and waits until each says that the cluster is whole."""
        for node in self.nodes:
            node.sigcont()
            node.start()
        if not self._is_formed:
            self._form()
        eventually_sync(
            self._is_whole, why="every node of the cluster says cluster_state:ok", needs=self.nodes
        )
        return self

    def _form(self) -> None:
        ranges = list(self._ranges())
        first = self.nodes[0]
        for epoch, (node, (begin, end)) in enumerate(zip(self.nodes, ranges, strict=True), start=1):
            node.call("CLUSTER", "ADDSLOTSRANGE", begin, end)
            node.call("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for node in self.nodes[1:]:
            first.call("CLUSTER", "MEET", "127.0.0.1", node.port, node.options["cluster-port"])
        self._is_formed = True

    def _ranges(self) -> Iterator[tuple[int, int]]:
        edges = [SLOTS * index // len(self.nodes) for index in range(len(self.nodes) + 1)]
        for begin, end in pairwise(edges):
            yield begin, end - 1

    def _is_whole(self) -> bool:
        return all(
            f"cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}".encode() in text
            and f"cluster_known_nodes:{len(self.nodes)}".encode() in text
            for text in (self._info(node) for node in self.nodes)
        )

    @staticmethod
    def _info(node: Server) -> bytes:
        try:
            text = node.call("CLUSTER", "INFO")
        except (OSError, ReplyError):
            return b""
        return text if isinstance(text, bytes) else b""

    def empty(self) -> None:
        """Removes all data and scripts on all nodes. Nodes whose users were changed restart: waits for the cluster."""
        for node in self.nodes:
            node.empty()
        eventually_sync(self._is_whole, why="every node of the cluster says cluster_state:ok")

    def slot(self, key: str) -> int:
        """The slot of a key."""
        number = self.nodes[0].call("CLUSTER", "KEYSLOT", key)
        assert isinstance(number, int)
        return number

    def owner(self, key: str) -> Server:
        """The node that has the slot of `key` by its own account."""
        slot = self.slot(key)
        for node in self.nodes:
            if slot in self.slots_of(node):
                return node
        raise LookupError(f"no node has slot {slot} of {key!r}")

    def slots_of(self, node: Server, *, said_by: Server | None = None) -> set[int]:
        """The slots that a node serves by its own account, or by that of another one."""
        node_id = node.call("CLUSTER", "MYID")
        ranges = (said_by or node).call("CLUSTER", "SLOTS")
        assert isinstance(ranges, list)
        return {number for one in ranges for number in _slots_of(one, node_id)}

    def move_slot(self, key: str, to: Server) -> None:
        """Moves the slot of `key`, with all that is in it, to another node: clients are redirected from then on."""
        source, slot = self.owner(key), self.slot(key)
        source_id, target_id = source.call("CLUSTER", "MYID"), to.call("CLUSTER", "MYID")
        assert isinstance(source_id, bytes)
        assert isinstance(target_id, bytes)
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        while keys := _as_words(source.call("CLUSTER", "GETKEYSINSLOT", slot, 100)):
            source.call("MIGRATE", "127.0.0.1", to.port, "", 0, 60_000, "KEYS", *keys)
        for node in (to, source, *self.nodes):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def migrate_slot(self, key: str, to: Server) -> None:
        """The same in the servers' own way, in one step; Valkey 9 and later. Waits until all nodes report it."""
        source, slot, target_id = self.owner(key), self.slot(key), to.call("CLUSTER", "MYID")
        assert isinstance(target_id, bytes)
        source.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target_id)
        eventually_sync(
            lambda: slot in self.slots_of(to) and slot not in self.slots_of(source), why="the slot has moved"
        )

    def add_replica(self, of: Server) -> Server:
        """Starts a node that follows one of the primaries, and waits until it does and every node knows it.

        It takes over only when a test asks for it: a primary that a loaded machine lets wait for longer than the node
        timeout stays the primary.
        """
        replica = self._node(self.flavour)
        replica.options["cluster-replica-no-failover"] = "yes"
        self.replicas.append(replica)
        replica.start()
        of_id = of.call("CLUSTER", "MYID")
        assert isinstance(of_id, bytes)
        of.call("CLUSTER", "MEET", "127.0.0.1", replica.port, replica.options["cluster-port"])
        eventually_sync(lambda: of_id in _bytes(replica.call("CLUSTER", "NODES")))
        replica.call("CLUSTER", "REPLICATE", of_id)
        eventually_sync(lambda: b"master_link_status:up" in _bytes(replica.call("INFO", "replication")))
        line = re.compile(_bytes(replica.call("CLUSTER", "MYID")) + rb" \S+ \S*\bslave\b\S* " + of_id)
        eventually_sync(
            lambda: all(line.search(_bytes(node.call("CLUSTER", "NODES"))) for node in self._running()),
            why="every node of the cluster knows the replica",
        )
        return replica

    def take_over(self, replica: Server) -> None:
        """A replica whose primary is dead becomes the primary. Waits until every node that runs says so."""
        replica.call("CLUSTER", "FAILOVER", "TAKEOVER")

        def is_known() -> bool:
            slots = self.slots_of(replica)
            views = {node.port: self._view(node, replica, slots) for node in self._running()}
            assert set(views.values()) == {""}, f"{replica.port} has {len(slots)} slots: {views}"
            return True

        eventually_sync(is_known, why="every node knows the new primary", needs=[replica])

    def _running(self) -> list[Server]:
        return [node for node in (*self.nodes, *self.replicas) if node.is_running]

    def _view(self, node: Server, primary: Server, slots: set[int]) -> str:
        """What a node says of its cluster; nothing where it serves, and knows this primary of these slots."""
        if (
            slots
            and b"cluster_state:ok" in self._info(node)
            and self.slots_of(primary, said_by=node) == slots
        ):
            return ""
        return _bytes(node.call("CLUSTER", "NODES")).decode()

    def close(self) -> None:
        """Kills all nodes and removes their directories."""
        for node in (*self.nodes, *self.replicas):
            node.close()


def _slots_of(entry: Reply, node_id: Reply) -> range:
    """The slots of one entry of CLUSTER SLOTS (first, last, [ip, port, id, ...], ...) if the node is their owner."""
    assert isinstance(entry, list)
    begin, end, owner = entry[0], entry[1], entry[2]
    assert isinstance(begin, int)
    assert isinstance(end, int)
    assert isinstance(owner, list)
    return range(begin, end + 1) if owner[2] == node_id else range(0)


def _as_words(reply: Reply) -> list[bytes]:
    assert isinstance(reply, list)
    return [word for word in reply if isinstance(word, bytes)]


def _bytes(reply: Reply) -> bytes:
    assert isinstance(reply, bytes)
    return reply
