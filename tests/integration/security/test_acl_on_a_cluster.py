"""docs/acl.md on a Redis Cluster: what it gives a role there is enough, and all of what it adds is needed."""

import pytest

import claimq
from claimq.errors import ClaimqError
from testkit.queues import roles
from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_server
from testkit.servers.resp import Reply

ADDED = ["+cluster|slots"]
OPTIONAL = {"client|setinfo", "config|get"}


class Nodes:
    """Sends a command to the node that serves its key, or one without a key to all."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster

    def call(self, *words: str | bytes | float) -> Reply:
        if len(words) > 1:
            return self._cluster.owner(str(words[1])).call(*words)
        for node in self._cluster.nodes:
            node.call(*words)
        return None


async def run_as(cluster: RedisCluster, role: str, rights: list[str]) -> ClaimqError | set[str]:
    """Does all that a role does with just these rights; the error, or what the nodes refused."""
    async with open_server(cluster.url) as admin:
        await roles.seed(Nodes(cluster), admin)
    for node in cluster.nodes:
        roles.give(node, role, rights)
        node.call("ACL", "LOG", "RESET")
    url = cluster.url.replace("://", f"://{role}:{roles.PASSWORD}@", 1)
    try:
        async with open_server(url, retry_for=5) as store:
            await roles.ROLES[role](store)
    except ClaimqError as error:
        return error
    return set[str]().union(*map(roles.denied, cluster.nodes)) - OPTIONAL


def test_the_document_names_the_rights_of_a_cluster() -> None:
    assert f"On a Redis Cluster every role also needs `{ADDED[0]}`" in roles.DOCUMENT.read_text()


@pytest.mark.parametrize("role", roles.ROLES)
async def test_what_the_document_gives_a_role_is_enough_on_a_cluster(
    redis_cluster: RedisCluster, role: str
) -> None:
    assert await run_as(redis_cluster, role, roles.documented(role) + ADDED) == set()


@pytest.mark.parametrize("role", roles.ROLES)
async def test_without_the_right_of_a_cluster_the_error_names_the_rights(
    redis_cluster: RedisCluster, role: str
) -> None:
    error = await run_as(redis_cluster, role, roles.documented(role))
    assert isinstance(error, claimq.StoreMisused)
    assert "docs/acl.md (the command CLUSTER)" in str(error)
