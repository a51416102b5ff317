"""Where each queue system keeps its entries, and which item an entry becomes."""

import json
import zlib

import pytest

from claimq_cli.migration.layout import Entry, Kept, Layout, OfAnotherQueue, Order
from claimq_cli.migration.layouts import RQ, BullMQ, PlainList, ReliableFIFO, Sidekiq

DUE = 4_000_000_000.5


def places(layout: Layout) -> list[tuple[str, str]]:
    return [(place.key, place.order) for place in layout.places]


def left_alone(layout: Layout) -> list[tuple[str, str]]:
    return [(left.key, left.kind) for left in layout.left_alone]


def waiting(value: bytes) -> Entry:
    return Entry(0, None, value)


def job(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_an_entry_of_the_imports_own_list_has_place_score_and_value() -> None:
    assert Entry.stored(b"2|1.5|0|a|b") == Entry(2, 1.5, b"a|b")
    assert Entry.stored(b"0||1|") == Entry(0, None, b"", is_renamed=True)


@pytest.mark.parametrize(
    ("key", "own"), [("jobs", "{jobs}:claimq-import"), ("{a}jobs", "{a}jobs:claimq-import")]
)
def test_the_imports_own_keys_are_in_the_slot_of_the_first_place(key: str, own: str) -> None:
    assert PlainList(key, Order.LEFT).own_key == own


def test_a_value_of_a_plain_list_is_the_payload() -> None:
    layout = PlainList("jobs", Order.LEFT)
    assert places(layout) == [("jobs", "left")]
    item = layout.item(waiting(b"\xff"), {})
    assert (item.payload, item.id, item.at) == (b"\xff", None, None)
    assert (layout.job_keys(waiting(b"x")), layout.has_job_hashes) == ((), False)


def test_a_fifo_has_its_payloads_in_the_field_b() -> None:
    layout = ReliableFIFO("q")
    assert places(layout) == [("q_main", "right")]
    assert left_alone(layout) == [("q_busy", "list"), ("q_failed", "list")]
    assert layout.item(waiting(job(b="text")), {}).payload == "text"
    assert layout.item(waiting(b'{"b": {"to" : "\\u00dc"} }'), {}).payload == r'{"to" : "\u00dc"}'


@pytest.mark.parametrize(
    ("value", "why"), [(job(a=1), "no field b"), (b"[1]", "not a JSON object"), (b"{", "not a JSON object")]
)
def test_an_entry_of_a_fifo_without_a_payload_stays(value: bytes, why: str) -> None:
    with pytest.raises(Kept, match=why):
        ReliableFIFO("q").item(waiting(value), {})


@pytest.mark.parametrize(("prefix", "start"), [("", ""), ("app", "app:")])
def test_sidekiq_has_a_list_and_two_sets_of_all_queues(prefix: str, start: str) -> None:
    layout = Sidekiq("mail", prefix)
    assert places(layout) == [
        (f"{start}queue:mail", "right"),
        (f"{start}schedule", "scores"),
        (f"{start}retry", "scores"),
    ]
    assert left_alone(layout) == [(f"{start}dead", "zset")]


def test_a_job_of_sidekiq_keeps_its_id_and_its_time() -> None:
    layout, value = Sidekiq("mail", ""), job(jid="j1", queue="mail")
    now, later = layout.item(waiting(value), {}), layout.item(Entry(1, DUE, value), {})
    assert (now.payload, now.id, now.at) == (value, "j1", None)
    assert (later.payload, later.id, later.at) == (value, "j1", DUE)


def test_a_scheduled_job_of_another_sidekiq_queue_is_passed_over() -> None:
    other = job(jid="j1", queue="other")
    with pytest.raises(OfAnotherQueue):
        Sidekiq("mail", "").item(Entry(1, DUE, other), {})
    assert Sidekiq("mail", "").item(waiting(other), {}).id == "j1"


@pytest.mark.parametrize("jid", [7, None])
def test_a_sidekiq_job_without_an_id_stays(jid: object) -> None:
    with pytest.raises(Kept, match="no jid"):
        Sidekiq("mail", "").item(waiting(job(jid=jid)), {})


@pytest.mark.parametrize("created", [1795352416.25, 1795352416250])
def test_jobs_with_the_same_id_differ_by_when_they_were_created(created: object) -> None:
    assert Sidekiq("mail", "").created_at(waiting(job(created_at=created)), {}) == str(created).encode()
    assert (
        RQ("mail").created_at(waiting(b"1"), {b"created_at": b"2026-11-27T04:00:00Z"})
        == b"2026-11-27T04:00:00Z"
    )
    assert BullMQ("mail", "").created_at(waiting(b"1"), {b"timestamp": b"17"}) == b"17"


def test_rq_has_its_jobs_in_hashes() -> None:
    layout = RQ("mail")
    assert layout.has_job_hashes
    assert places(layout) == [("rq:queue:mail", "left"), ("rq:scheduled:mail", "scores")]
    assert left_alone(layout) == [
        ("rq:queue:mail:intermediate", "list"),
        ("rq:wip:mail", "zset"),
        ("rq:deferred:mail", "zset"),
        ("rq:failed:mail", "zset"),
        ("rq:scheduler:scheduled_jobs", "zset"),
        ("rq:rl-keys", "rq-limits"),
    ]
    assert layout.job_keys(waiting(b"j1")) == (b"rq:job:j1",)


@pytest.mark.parametrize("stored", [b"data", zlib.compress(b"data")], ids=["plain", "compressed"])
def test_a_job_of_rq_is_decompressed(stored: bytes) -> None:
    item = RQ("mail").item(Entry(1, DUE, b"j1"), {b"data": stored})
    assert (item.payload, item.id, item.at) == (b"data", "j1", DUE)


def test_a_job_of_rq_may_decompress_to_64_mib() -> None:
    largest = bytes(64 * 1024 * 1024)
    assert RQ("mail").item(waiting(b"j1"), {b"data": zlib.compress(largest, 1)}).payload == largest
    with pytest.raises(Kept, match="larger than 64 MiB"):
        RQ("mail").item(waiting(b"j1"), {b"data": zlib.compress(largest + b"\0", 1)})


def test_a_job_of_rq_without_its_hash_stays() -> None:
    with pytest.raises(Kept, match="missing"):
        RQ("mail").item(waiting(b"j1"), {})
    assert RQ("mail").job_keys(waiting(b"\xff")) == (b"rq:job:\xff",)


@pytest.mark.parametrize(("prefix", "start"), [("", "bull:mail:"), ("app", "app:mail:")])
def test_bullmq_has_lists_sets_and_hashes(prefix: str, start: str) -> None:
    layout = BullMQ("mail", prefix)
    assert layout.has_job_hashes
    assert places(layout) == [
        (f"{start}paused", "right"),
        (f"{start}wait", "right"),
        (f"{start}prioritized", "scores"),
        (f"{start}delayed", "scores"),
    ]
    assert left_alone(layout) == [
        (f"{start}active", "list"),
        (f"{start}active", "bullmq-newer"),
        (f"{start}waiting-children", "zset"),
        (f"{start}repeat", "zset"),
        (f"{start}failed", "zset"),
    ]
    assert layout.job_keys(waiting(b"1")) == (f"{start}1".encode(), f"{start}1:logs".encode())


def test_a_job_of_bullmq_is_a_json_object_of_name_data_and_options() -> None:
    layout = BullMQ("mail", "")
    item = layout.item(waiting(b"1"), {b"name": b'a"b', b"data": b'{"x":1}', b"opts": b'{"delay":5}'})
    assert item.payload == b'{"name":"a\\"b","data":{"x":1},"opts":{"delay":5}}'
    assert (item.id, item.at) == ("mail:1", None)
    assert layout.item(waiting(b"1"), {b"data": b"[]"}).payload == b'{"name":"","data":[],"opts":{}}'


@pytest.mark.parametrize(("place", "due"), [(2, None), (3, DUE)], ids=["priority", "delay"])
def test_only_the_scores_of_delayed_jobs_of_bullmq_are_times(place: int, due: float | None) -> None:
    entry = Entry(place, DUE * 1000 * 4096, b"1")
    assert BullMQ("mail", "").item(entry, {b"data": b"1"}).at == due


def test_a_marker_of_bullmq_is_no_job() -> None:
    with pytest.raises(OfAnotherQueue):
        BullMQ("mail", "").item(Entry(3, 0.0, b"0:17"), {})


@pytest.mark.parametrize(
    ("fields", "why"), [({}, "missing"), ({b"data": b"1", b"parentKey": b"k"}, "child of a flow")]
)
def test_a_job_of_bullmq_that_is_gone_or_awaited_stays(fields: dict[bytes, bytes], why: str) -> None:
    with pytest.raises(Kept, match=why):
        BullMQ("mail", "").item(waiting(b"1"), fields)
