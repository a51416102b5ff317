"""What an on-call engineer sees in an outage, and what goes on: a real server and a Kubernetes API in memory."""

from pathlib import Path

import claimq
from claimq_operator.reconcile.context import Context
from claimq_spec.kubernetes_api.port import QUEUES
from testkit.operator_in_memory import DownApi, operator, queue_body, replicas
from testkit.server import Server
from testkit.waiting import eventually

BY_ITEMS = {"itemsPerReplica": 10, "maxReplicas": 50, "targetAge": "1h"}


def items_in_metrics(context: Context, state: str = "main") -> float:
    begin = f'claimq_queue_items{{name="thumbs",namespace="media",state="{state}"}} '
    lines = context.metrics.render().decode().splitlines()
    return float(next(line for line in lines if line.startswith(begin)).removeprefix(begin))


async def test_metrics_follow_the_queue_while_the_api_server_is_down(valkey: Server, tmp_path: Path) -> None:
    api = DownApi()
    async with claimq.connect(valkey.url) as store, operator(api, tmp_path) as context:
        queue = store.queue("media.thumbs", worker="producer")
        await queue.enqueue_many(map(str, range(20)))
        context.cache.update_queue(await api.create(QUEUES, queue_body(valkey, scaling=BY_ITEMS)))
        await eventually(lambda: replicas(api) == 2 and items_in_metrics(context) == 20)
        api.is_down = True
        await queue.enqueue_many(map(str, range(60)))
        await eventually(lambda: items_in_metrics(context) == 80)
        assert replicas(api) == 2
