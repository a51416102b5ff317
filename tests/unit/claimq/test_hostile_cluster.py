"""A cluster node that others control cannot fill the memory of a program with nodes that it names."""

from collections.abc import Sequence

import pytest
from redis.exceptions import ClusterDownError, MovedError, TryAgainError

from claimq.redis_store.clients.cluster_client import Address, ClusterClient


class Node:
    """A node that answers each call with a redirection to a node that was never named before."""

    def __init__(self, names: "Names") -> None:
        self._names = names
        self.is_closed = False

    async def plain(self, *words: object, before: object = None) -> object:
        if words[0] == "CLUSTER":
            return [[0, 16383, [b"10.0.0.1", 7000]]]
        raise MovedError(f"1 {self._names.next()}:7000")

    async def aclose(self) -> None:
        self.is_closed = True


class Names:
    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"10.{self.count >> 16}.{self.count >> 8 & 255}.{self.count & 255}"


async def test_nodes_that_redirections_name_are_closed_again() -> None:
    names = Names()
    nodes: list[Node] = []

    def make(address: Address) -> Node:
        nodes.append(Node(names))
        return nodes[-1]

    client = ClusterClient([("10.0.0.1", 7000)], make)  # type: ignore[arg-type]  # a stand-in for DirectClient
    for _ in range(50):
        with pytest.raises(TryAgainError):
            await client.evalsha("0" * 40, 1, "key")
    assert names.count == 250
    assert sum(not node.is_closed for node in nodes) < 10
    await client.aclose()


async def test_a_map_of_more_nodes_than_a_cluster_has_is_refused() -> None:
    class Large(Node):
        async def plain(self, *words: object, before: object = None) -> Sequence[object]:
            return [[slot, slot, [self._names.next().encode(), 7000]] for slot in range(2000)]

    client = ClusterClient([("10.0.0.1", 7000)], lambda _: Large(Names()))  # type: ignore[arg-type, return-value]  # a stand-in for DirectClient
    with pytest.raises(ClusterDownError, match="more nodes"):
        await client.evalsha("0" * 40, 1, "key")
    await client.aclose()
