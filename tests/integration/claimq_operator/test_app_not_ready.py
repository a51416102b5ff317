"""An app that gets its items by requests and does not listen, as the operator reports it."""

from pathlib import Path

from testkit.kubernetes.kubernetes_objects import deaf_pod_body
from testkit.kubernetes.operator_in_memory import MemoryApi, add_queue, conditions, operator, queue_body
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually


async def test_an_app_that_never_listens_is_reported(valkey: Server, tmp_path: Path) -> None:
    api, pod = MemoryApi(), deaf_pod_body("a")
    for kind in ("containerStatuses", "initContainerStatuses"):
        pod["status"][kind][0]["state"]["running"]["startedAt"] = "2025-12-31T23:58:00Z"
    async with (
        open_queue(valkey.url, "media.thumbs", worker="producer") as queue,
        operator(api, tmp_path) as context,
    ):
        await queue.enqueue("a")
        context.cache.update_pod(pod)
        await add_queue(context, api, queue_body(valkey))
        await eventually(lambda: conditions(api).get("WorkersAvailable") == "False AppNotReady")
        await eventually(lambda: conditions(api).get("Progressing") == "False AppNotReady")
        events = [body for (kind, _), body in api.objects.items() if kind == "Event"]
    assert [body["reason"] for body in events if "its sidecar is not ready" in str(body)] == [
        "WorkersUnavailable"
    ]
