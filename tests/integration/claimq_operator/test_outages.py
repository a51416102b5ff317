"""What an on-call engineer sees in an outage, and what goes on: a real server and a Kubernetes API in memory."""

from pathlib import Path

from claimq_kubernetes.port import QUEUES, ClusterError, ClusterUnavailable, Json, Refused
from claimq_operator.reconcile.context import Context
from testkit.kubernetes.operator_in_memory import (
    DownApi,
    MemoryApi,
    add_queue,
    conditions,
    operator,
    queue_body,
    replicas,
)
from testkit.plugin import ServerFactory
from testkit.servers.patient import open_queue
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually

BY_ITEMS = {"itemsPerReplica": 10, "maxReplicas": 50, "targetAge": "1h"}


def items_in_metrics(context: Context) -> float:
    return gauges(context, 'items{name="thumbs",namespace="media",state="main"}')[0]


def gauges(context: Context, *series: str) -> list[float]:
    """The values of series of the queue on one page of metrics; NaN before the first pass has ended."""
    page = dict(line.rsplit(" ", 1) for line in context.metrics.render().decode().splitlines())
    return [float(page.get(f"claimq_queue_{one}", "NaN")) for one in series]


async def test_metrics_follow_the_queue_while_the_api_server_is_down(valkey: Server, tmp_path: Path) -> None:
    api = DownApi()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue_many(map(str, range(20)))
        await add_queue(context, api, queue_body(valkey, scaling=BY_ITEMS))
        await eventually(lambda: replicas(api) == 2 and items_in_metrics(context) == 20)
        api.is_down = True
        await queue.enqueue_many(map(str, range(60)))
        await eventually(lambda: items_in_metrics(context) == 80)
        assert replicas(api) == 2


async def test_each_pass_checks_the_books_of_the_queue_that_it_reads(valkey: Server, tmp_path: Path) -> None:
    api, pages = MemoryApi(), list[tuple[float, float]]()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):

        def has(*page: float) -> bool:
            labels = '{name="thumbs",namespace="media"}'
            main = labels.replace("}", ',state="main"}')
            items, unaccounted = gauges(context, f"items{main}", f"items_unaccounted{labels}")
            pages.append((items, unaccounted))
            return pages[-1] == page

        await queue.enqueue_many(map(str, range(20)))
        await add_queue(context, api, queue_body(valkey, scaling=BY_ITEMS))
        await eventually(lambda: replicas(api) == 2 and has(20, 0))
        valkey.call("RPOP", "cq:{media.thumbs}:main", "3")  # as no program of claimq does
        await eventually(lambda: has(17, 3))
        valkey.call("HINCRBY", "cq:{media.thumbs}:stats", "flushed", "3")
        await eventually(lambda: has(17, 0))
    seen = list(dict.fromkeys(page for page in pages if page[0] >= 0))
    assert seen == [(20, 0), (17, 3), (17, 0)], "no pass reports one without the other"


class RefusesChanges(MemoryApi):
    """The same; changes of Deployments can fail, as by an admission policy or a webhook of the cluster."""

    refusal: ClusterError | None = None

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        if self.refusal is not None and body["kind"] == "Deployment":
            raise self.refusal
        return await super().apply(body, manager=manager, subresource=subresource, force=force)


async def test_a_deletion_ends_although_its_workers_may_not_be_scaled_down(
    valkey: Server, tmp_path: Path
) -> None:
    """They end with the Deployment, which the cluster deletes once the finalizer is gone."""
    api = RefusesChanges()
    async with operator(api, tmp_path) as context:
        body = queue_body(valkey, deletionPolicy="Delete", scaling={"mode": "Manual", "replicas": 1})
        await add_queue(context, api, body)
        await eventually(lambda: replicas(api) == 1)
        api.refusal = Refused("apply of thumbs-worker: denied by a policy", forbidden=True)
        deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", deleted))
        await eventually(lambda: ("ReliableQueue", "thumbs") not in api.objects)
    assert valkey.call("EXISTS", "cq:{media.thumbs}:config") == 0


async def test_the_status_follows_the_queue_while_a_webhook_for_its_children_fails(
    valkey: Server, tmp_path: Path
) -> None:
    api = RefusesChanges()
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue_many(map(str, range(20)))
        await add_queue(context, api, queue_body(valkey, scaling=BY_ITEMS))
        await eventually(
            lambda: replicas(api) == 2 and conditions(api).get("Suspended") == "False NotSuspended"
        )
        api.refusal = ClusterUnavailable("apply of thumbs-worker: failed calling webhook")
        await queue.enqueue_many(map(str, range(60)))
        await queue.pause()
        await eventually(lambda: conditions(api)["Suspended"] == "True PausedByHand")
        assert replicas(api) == 2


async def test_a_server_that_cannot_run_the_scripts_is_named_in_the_condition(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    """Also after it has run them, as after a failover to a server of another release."""
    server = start_server(options=dict(DURABLE))
    api = MemoryApi()
    async with operator(api, tmp_path) as context:
        await add_queue(context, api, queue_body(server, scaling=BY_ITEMS))
        await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("True"))
        server.kill9()
        server.options["rename-command"] = 'TIME ""'
        server.start()
        refused = "the server cannot run claimq's scripts: valkey "
        await eventually(lambda: refused in message_of(api, "RedisReachable"))
        assert conditions(api)["RedisReachable"] == "False ScriptsRefused"


def message_of(api: MemoryApi, kind: str) -> str:
    """The message of a condition of the queue."""
    listed = api.objects["ReliableQueue", "thumbs"]["status"]["conditions"]
    return str(next(one["message"] for one in listed if one["type"] == kind))
