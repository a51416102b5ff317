"""The page samples the queues of one server together."""

from __future__ import annotations

import claimq
from claimq import Policy
from claimq_web.curves.samples import Samples
from claimq_web.queues.queues import ServerQueues
from claimq_web.queues.sampler import Sampler
from testkit.servers.cluster import RedisCluster
from testkit.servers.contents import reads_of
from testkit.servers.patient import open_server
from testkit.servers.server import Server


async def fill(store: claimq.Server, count: int) -> Sampler:
    """Queues with an item each, one with a policy only, and a name that no queue has."""
    for number in range(count):
        await store.queue(f"q{number:03}").enqueue("x")
    await store.queue("configured").set_policy(Policy())
    for name in ("configured", "gone"):
        await store.queue(name).add_to_index()
    return Sampler(ServerQueues(store, (), dict), Samples())


def lengths(sampler: Sampler) -> dict[str, float]:
    """The numbers of items that wait, of the queues that have samples."""
    rings = {name: sampler.samples.ring(name) for name in sampler.samples.names}
    return {name: ring.samples()[-1].main for name, ring in rings.items() if ring}


async def test_a_pass_over_many_queues_takes_few_round_trips(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        await fill(store, 300)
    async with open_server(valkey.url) as store:
        sampler = Sampler(ServerQueues(store, (), dict), Samples())
        await sampler.sample_all()
        before = reads_of(valkey)
        await sampler.sample_all()
        assert reads_of(valkey) - before <= 60
        assert lengths(sampler) == {"configured": 0, **{f"q{number:03}": 1 for number in range(300)}}


async def test_a_queue_with_a_wrong_key_hides_no_other(valkey: Server) -> None:
    async with open_server(valkey.url) as store:
        sampler = await fill(store, 3)
        valkey.call("DEL", "cq:{q001}:main")
        valkey.call("SET", "cq:{q001}:main", "theirs")
        await sampler.sample_all()
        assert lengths(sampler) == {"configured": 0, "q000": 1, "q002": 1}
        assert sampler.problems.keys() == {"q001"}


async def test_the_queues_of_a_cluster_are_sampled(redis_cluster: RedisCluster) -> None:
    async with open_server(redis_cluster.url) as store:
        sampler = await fill(store, 3)
        await sampler.sample_all()
        assert lengths(sampler) == {"configured": 0, "q000": 1, "q001": 1, "q002": 1}
