"""Which entry of each queue system an item becomes, and which items cannot be one."""

import json
import pickletools
import zlib
from typing import Any

import pytest

from claimq.model import Item, Located, State
from claimq_cli.migration.layout import Entry, Layout, NewEntry, Order
from claimq_cli.migration.layouts import RQ, BullMQ, PlainList, ReliableFIFO, Sidekiq
from claimq_cli.migration.new_entries import JobOptions, Unwritable, is_written, new_entry

NOW, FIRST, DUE = 2_000_000_000.5, 1_900_000_000.25, 4_000_000_000.5
NAMED = JobOptions("shop.send")
PICKLED = b"\x80\x05\x95\x17\x00\x00\x00\x00\x00\x00\x00(\x8c\x08shop.add\x94NK\x01\x85\x94}\x94t\x94."


def entry(
    layout: Layout,
    payload: bytes,
    options: JobOptions = JobOptions(),  # noqa: B008 - frozen
    *,
    id: str = "i1",  # noqa: A002 - its name in the library
    due_at: float | None = None,
    first: float = FIRST,
) -> NewEntry:
    item = Item(id, payload, first, first)
    return new_entry(layout, Located(item, State.MAIN, due_at=due_at), options, NOW)


def value(layout: Layout, payload: bytes, **others: Any) -> bytes:
    return entry(layout, payload, **others).value


def read_back(layout: Layout, written: NewEntry) -> object:
    return layout.item(Entry(0, None, written.value), written.job).payload


def test_a_plain_list_has_the_payload() -> None:
    assert entry(PlainList("jobs", Order.LEFT), b"\xff") == NewEntry(b"\xff")


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (b'{"to": 1.50}', b'{"to": 1.50}'),
        (b"[1,2]", b"[1,2]"),
        (b"17", b'"17"'),
        (b"[NaN]", b'"[NaN]"'),
        ('say "Ü"\n'.encode(), '"say \\"Ü\\"\\n"'.encode()),
        (b"[" * 100_000 + b"]" * 100_000, b'"' + b"[" * 100_000 + b"]" * 100_000 + b'"'),
    ],
    ids=["object", "list", "number", "NaN", "text", "deep"],
)
def test_objects_and_lists_are_data_and_the_rest_is_text(payload: bytes, written: bytes) -> None:
    assert value(ReliableFIFO("q"), payload) == b'{"b":%b,"t":2000000000}' % written
    assert entry(BullMQ("q", ""), payload, NAMED).job[b"data"] == written


@pytest.mark.parametrize("layout", [ReliableFIFO("q"), BullMQ("q", "")])
def test_json_cannot_contain_other_bytes_than_text(layout: Layout) -> None:
    with pytest.raises(Unwritable, match="not UTF-8 text, which JSON cannot contain; export it to a file"):
        entry(layout, b"\xff", NAMED)


def test_a_job_of_sidekiq_is_written_as_it_is() -> None:
    job = b'{"class": "Mail", "args": [], "jid": "j1", "queue": "q"}'
    assert entry(Sidekiq("q", ""), job, due_at=DUE) == NewEntry(job, DUE)


@pytest.mark.parametrize("change", [{"class": 1}, {"args": {}}, {"jid": None}, {"queue": "other"}])
def test_what_is_no_job_of_this_sidekiq_queue_is_refused(change: dict[str, object]) -> None:
    job: dict[str, object] = {"class": "Mail", "args": [], "jid": "j1", "queue": "q", **change}
    with pytest.raises(Unwritable, match='the queue "q"; --to list:queue:q writes any payload'):
        entry(Sidekiq("q", ""), json.dumps(job).encode())


def test_a_job_of_rq_has_the_fields_that_its_worker_reads() -> None:
    written = entry(RQ("q"), PICKLED)
    assert (written.value, written.due_at) == (b"i1", None)
    assert zlib.decompress(written.job[b"data"]) == PICKLED
    assert {name: text for name, text in written.job.items() if name != b"data"} == {
        b"status": b"queued",
        b"created_at": b"2030-03-17T17:46:40.250000Z",
        b"enqueued_at": b"2033-05-18T03:33:20.500000Z",
        b"origin": b"q",
        b"description": b"item i1",
        b"timeout": b"180",
    }


def test_a_delayed_item_is_a_scheduled_job_of_rq() -> None:
    written = entry(RQ("q"), PICKLED, JobOptions(timeout=60), due_at=DUE)
    assert written.due_at == DUE
    assert [written.job[name] for name in (b"status", b"enqueued_at", b"timeout")] == [
        b"scheduled",
        b"",
        b"60",
    ]


@pytest.mark.parametrize(
    "payload",
    [
        PICKLED,
        b"\x80\x02(X\x01\x00\x00\x00aNK\x01\x85q\x00}q\x01tq\x02.",
        b"\x80\x03(\ntr\x00\x01\n\x00.",
        b'["shop.add", null, [1], {}]',
    ],
    ids=["protocol 5", "protocol 2", "protocol 3, long", "JSON"],
)
def test_calls_of_rq_keep_their_form(payload: bytes) -> None:
    assert read_back(RQ("q"), entry(RQ("q"), payload, NAMED)) == payload


NO_CALLS = [
    b"text",
    b"",
    b'{"to": "ann"}',
    b'["shop.add", null, [1]]',
    b'["shop.add", null, [1], {}, 5]',
    b'["shop.add", null, {}, {}]',
    b'["shop.add", null, [], []]',
    b"[1, null, [], {}]",
    b"\x80\x04}\x94.",
    b"\x80\x01(t.",
    b"x\x80\x04(t\x94.",
    b"\x80\x04(t\x94.x",
]


@pytest.mark.parametrize("payload", NO_CALLS)
def test_other_payloads_are_no_calls_of_rq(payload: bytes) -> None:
    with pytest.raises(
        Unwritable, match=r"no call as RQ's serializer writes it; add --job-name MODULE\.FUNCTION"
    ):
        entry(RQ("q"), payload)


@pytest.mark.parametrize(
    ("payload", "argument"),
    [
        ("Grüße".encode(), ("BINUNICODE", "Grüße")),
        (b"\xff", ("BINBYTES", b"\xff")),
        (b"", ("BINUNICODE", "")),
    ],
)
def test_with_a_name_rq_calls_the_function_with_the_payload(
    payload: bytes, argument: tuple[str, object]
) -> None:
    data = zlib.decompress(entry(RQ("q"), payload, NAMED).job[b"data"])
    assert [(code.name, found) for code, found, _ in pickletools.genops(data)] == [
        ("PROTO", 4), ("MARK", None), ("BINUNICODE", "shop.send"), ("NONE", None), argument,
        ("TUPLE1", None), ("EMPTY_DICT", None), ("TUPLE", None), ("STOP", None),
    ]  # fmt: skip


def test_a_job_of_bullmq_is_what_an_import_has_read() -> None:
    payload = b'{"name":"a\\"b","data":{"n":1.50,"e":1e+21},"opts":{"attempts":3,"priority":7}}'
    written = entry(BullMQ("q", ""), payload, NAMED)
    assert written == NewEntry(b"i1", None, written.job)
    assert list(written.job.items()) == [
        (b"name", b'a"b'),
        (b"data", b'{"n":1.50,"e":1e+21}'),
        (b"opts", b'{"attempts":3,"priority":7}'),
        (b"timestamp", b"1900000000250"),
        (b"delay", b"0"),
        (b"priority", b"7"),
    ]
    assert read_back(BullMQ("q", ""), written) == payload


def test_members_of_a_job_may_be_in_any_order_with_blanks() -> None:
    written = entry(BullMQ("q", ""), b' { "opts" : {} , "name": "n","data"\n:[ 1 ] } ')
    assert [written.job[name] for name in (b"name", b"data", b"opts")] == [b"n", b"[ 1 ]", b"{}"]


def test_a_delayed_item_has_its_delay_since_it_was_created() -> None:
    written = entry(BullMQ("q", ""), b"text", NAMED, due_at=DUE)
    assert (written.due_at, written.job[b"delay"]) == (DUE, b"2100000000250")
    assert entry(BullMQ("q", ""), b"text", NAMED, due_at=FIRST - 1).job[b"delay"] == b"0"


def test_jobs_of_schedules_and_deduplicated_jobs_have_their_fields() -> None:
    opts = {"repeatJobKey": "nightly", "de": {"id": "d1"}}
    job = entry(BullMQ("q", ""), json.dumps({"name": "n", "data": 1, "opts": opts}).encode()).job
    assert (job[b"rjk"], job[b"deid"]) == (b"nightly", b"d1")
    plain = entry(BullMQ("q", ""), b'{"name":"n","data":1,"opts":{"repeatJobKey":1,"de":{}}}').job
    assert not {b"rjk", b"deid"} & plain.keys()


@pytest.mark.parametrize(
    "payload",
    [
        b"text",
        b'{"name":"n","data":1}',
        b'{"name":"n","data":1,"opts":[]}',
        b'{"name":1,"data":1,"opts":{}}',
        b'{"name":"n","data":1,"opts":{},"to":"ann"}',
        b'{"name":"n","d\\u0061ta":1,"opts":{}}',
    ],
)
def test_other_payloads_are_no_jobs_of_bullmq(payload: bytes) -> None:
    with pytest.raises(
        Unwritable, match="not a JSON object with the name, data and opts of a job; add --job-name"
    ):
        entry(BullMQ("q", ""), payload)
    job = entry(BullMQ("q", ""), payload, JobOptions("send")).job
    assert (job[b"name"], job[b"opts"], job[b"priority"]) == (b"send", b'{"attempts":0}', b"0")


@pytest.mark.parametrize("priority", [-1, 2_097_152, 1.5, "1", True])
def test_a_priority_that_bullmq_does_not_have_is_refused(priority: object) -> None:
    payload = json.dumps({"name": "n", "data": 1, "opts": {"priority": priority}}).encode()
    with pytest.raises(Unwritable, match=r"opts\.priority of the job is not a number from 0 to 2,097,151"):
        entry(BullMQ("q", ""), payload)


def test_the_highest_priority_of_bullmq_is_written() -> None:
    payload = b'{"name":"n","data":1,"opts":{"priority":2097151}}'
    assert entry(BullMQ("q", ""), payload).job[b"priority"] == b"2097151"


@pytest.mark.parametrize("item_id", ["i1", "A_z-9"])
def test_ids_that_rq_accepts_stay(item_id: str) -> None:
    assert value(RQ("q"), PICKLED, id=item_id) == item_id.encode()


@pytest.mark.parametrize(
    ("item_id", "job_id"),
    [
        ("order-17", b"order-17"),
        ("a.b%@", b"a.b%@"),
        ("q:1", b"1"),
        ("q:order-17", b"order-17"),
        ("q:repeat:nightly:1795352394343", b"repeat:nightly:1795352394343"),
        ("q:" + "9" * 15, b"9" * 15),
    ],
)
def test_ids_that_bullmq_accepts_stay_and_lose_the_queues_name(item_id: str, job_id: bytes) -> None:
    assert value(BullMQ("q", ""), b'{"name":"n","data":1,"opts":{}}', id=item_id) == job_id


@pytest.mark.parametrize(
    ("layout", "item_id", "start"),
    [
        (RQ("q"), "order:17", "order-17-"),
        (RQ("q"), "x" * 150 + ".", "x" * 100 + "-"),
        (BullMQ("q", ""), "17", "17-"),
        (BullMQ("q", ""), "other:17", "other-17-"),
        (BullMQ("q", ""), "q:1:logs", "q-1-logs-"),
        (BullMQ("q", ""), "q:repeat:nightly", "q-repeat-nightly-"),
        (BullMQ("q", ""), "q:", "q--"),
        (BullMQ("q", ""), "q:wait", "q-wait-"),
        (BullMQ("q", ""), "stalled-check", "stalled-check-"),
        (BullMQ("q", ""), "q:" + "9" * 16, "q-9999999999999999-"),
    ],
)
def test_other_ids_are_replaced_by_ones_that_follow_from_them(
    layout: Layout, item_id: str, start: str
) -> None:
    payload = PICKLED if isinstance(layout, RQ) else b'{"name":"n","data":1,"opts":{}}'
    found = value(layout, payload, id=item_id).decode()
    assert found.startswith(start)
    assert len(found) == len(start) + 16
    assert value(layout, payload, id=item_id).decode() == found
    assert value(layout, payload, id=item_id + "!").decode() != found


def test_a_failed_item_has_its_name_beside_others_with_the_same_id() -> None:
    failed = Located(Item("i1", b"text", FIRST, FIRST), State.FAILED, name="i1#2")
    assert new_entry(BullMQ("q", ""), failed, NAMED, NOW).value == b"i1#2"
    assert new_entry(RQ("q"), failed, NAMED, NOW).value.startswith(b"i1-2-")


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({b"created_at": b"", b"status": b"scheduled", b"timeout": b"1"}, True),
        ({b"status": b"finished"}, True),
        ({b"status": b"finished", b"created_at": b""}, False),
        ({b"data": zlib.compress(PICKLED + b"x")}, False),
    ],
    ids=["waits", "is scheduled", "was executed", "another was executed", "has other arguments"],
)
def test_an_equal_job_of_rq_that_waits_or_is_as_old_is_the_items(
    changes: dict[bytes, bytes], is_same: bool
) -> None:
    written = entry(RQ("q"), PICKLED)
    assert is_written(RQ("q"), written, {**written.job, **changes}) == is_same


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({b"timestamp": b"1"}, True),
        ({b"processedOn": b"2"}, True),
        ({b"processedOn": b"2", b"timestamp": b"1"}, False),
        ({b"data": b"2"}, False),
        ({b"parentKey": b"flow"}, False),
    ],
    ids=["waits", "was created before", "was processed", "another was processed", "has other data", "child"],
)
def test_an_equal_job_of_bullmq_that_waits_or_is_as_old_is_the_items(
    changes: dict[bytes, bytes], is_same: bool
) -> None:
    layout = BullMQ("q", "")
    written = entry(layout, b'{"name":"n","data":1,"opts":{}}')
    assert is_written(layout, written, {**written.job, **changes}) == is_same


def test_items_that_were_pushed_as_bare_payloads_get_new_ids_and_times() -> None:
    first, second = (entry(RQ("q"), PICKLED, id="bare-7", first=0.0) for _ in range(2))
    assert first.value.startswith(b"claimq-")
    assert first.value != second.value
    assert first.job[b"created_at"] == b"2033-05-18T03:33:20.500000Z"
    job = entry(BullMQ("q", ""), b"text", NAMED, id="bare-7", first=0.0).job
    assert job[b"timestamp"] == b"2000000000500"
