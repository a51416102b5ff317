"""How many Events about changes by hand the API server has to keep."""

from claimq_kubernetes.port import Json
from claimq_web.queues.change_events import ChangeEvents
from testkit.kubernetes.operator_in_memory import MemoryApi

THUMBS: Json = {"namespace": "media", "name": "thumbs", "uid": "uid-1"}
OTHER: Json = {"namespace": "shop", "name": "orders", "uid": "uid-2"}


def messages(api: MemoryApi) -> list[str]:
    return [body["message"] for body in api.objects.values()]


async def test_changes_beyond_the_rate_have_no_event_and_are_counted_in_the_next() -> None:
    api, now = MemoryApi(), 0.0
    events = ChangeEvents(api, lambda: now)
    for number in range(500):
        await events.emit(THUMBS, "mallory", f"pause {number}")
    assert messages(api) == [f"mallory: pause {number}" for number in range(10)]
    await events.emit(THUMBS, "ann", "resume")
    assert messages(api)[10] == "ann: resume; 490 earlier changes only in the audit log"
    now = 10.0
    await events.emit(THUMBS, "mallory", "flush")
    await events.emit(THUMBS, "mallory", "flush again")
    assert messages(api)[11:] == ["mallory: flush"]


async def test_the_objects_of_a_namespace_share_a_rate() -> None:
    api = MemoryApi()
    events = ChangeEvents(api, lambda: 0.0)
    for number in range(100):
        await events.emit({**THUMBS, "uid": f"uid-{number}"}, f"user {number % 7}", "pause")
    assert len(messages(api)) == 50
    await events.emit(OTHER, "ann", "pause")
    assert messages(api)[50:] == ["ann: pause"]
