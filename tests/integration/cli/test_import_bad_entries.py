"""`claimq import` of entries that cannot be items: they stay with a reason, and the rest is imported."""

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from testkit.plugin import Claimq
from testkit.servers.server import Server


def payloads(queue: BlockingQueue) -> list[bytes]:
    return [item.payload for item in queue.peek(100)]


def keys(server: Server) -> set[bytes]:
    found: Any = server.call("KEYS", "*")
    return set(found)


def in_rq(server: Server, name: str | bytes, data: str | bytes, **fields: str) -> None:
    others = [word for pair in fields.items() for word in pair]
    server.call(
        "HSET", b"rq:job:" + (name if isinstance(name, bytes) else name.encode()), "data", data, *others
    )
    server.call("RPUSH", "rq:queue:old", name)


def in_bullmq(server: Server, name: str | bytes, data: str | bytes = "{}", **fields: str | bytes) -> None:
    others = [word for pair in fields.items() for word in pair]
    key = b"bull:old:" + (name if isinstance(name, bytes) else name.encode())
    server.call("HSET", key, "name", "n", "data", data, *others)
    server.call("LPUSH", "bull:old:wait", name)


@pytest.mark.parametrize("name", [b"\xff", "a b", "Ü", "x" * 200], ids=["bytes", "blank", "umlaut", "long"])
@pytest.mark.parametrize("put", [in_rq, in_bullmq])
def test_a_job_whose_id_no_item_can_have_stays(
    on: Claimq, valkey: Server, queue: BlockingQueue, put: Callable[..., None], name: str | bytes
) -> None:
    for one in ("1", name, "2"):
        put(valkey, one, "[]")
    source = "rq:old" if put is in_rq else "bullmq:old"
    for words in (["--dry-run"], []):
        answer = on("import", "q", "--from", source, *words)
        assert (answer.code, "2 items" in answer.out) == (1, True)
        assert "1 not imported: its id has spaces or other than printable ASCII characters" in answer.err
    assert queue.length() == 2
    answer = on("import", "q", "--from", source, "--new-ids")
    assert (answer.code, "1 item enqueued" in answer.out) == (0, True)


@pytest.mark.parametrize("system", ["rq", "bullmq"])
def test_a_job_under_a_key_of_another_type_stays(
    on: Claimq, valkey: Server, queue: BlockingQueue, system: str
) -> None:
    put = in_rq if system == "rq" else in_bullmq
    for name in ("1", "2", "3"):
        put(valkey, name, "[]")
    key = "rq:job:2" if system == "rq" else "bull:old:2"
    valkey.call("DEL", key)
    valkey.call("SET", key, "text")
    answer = on("import", "q", "--from", f"{system}:old")
    assert (answer.code, queue.length()) == (1, 2)
    assert "1 not imported: its key is not a hash (for example 2)" in answer.err


def test_a_place_of_another_type_stays_and_the_others_are_imported(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    in_rq(valkey, "1", "[]")
    valkey.call("SET", "rq:scheduled:old", "text")
    valkey.call("SET", "rq:failed:old", "text")
    answer = on("import", "q", "--from", "rq:old")
    assert (answer.code, queue.length()) == (1, 1)
    assert "rq:scheduled:old is a string and not a sorted set; its entries stay" in answer.err
    assert "rq:failed:old is a string and not a sorted set; its entries stay" in answer.err


def test_a_list_that_is_a_sorted_set_is_named_and_nothing_else_is_advised(on: Claimq, valkey: Server) -> None:
    valkey.call("ZADD", "arq:queue", 1, "job")
    answer = on("import", "q", "--from", "list:arq:queue")
    assert answer.code == 4
    assert "the key arq:queue on the server of the source is a sorted set and not a list" in answer.err
    assert "delete" not in answer.err
    assert "rename" not in answer.err


def test_data_of_rq_that_is_damaged_stays(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    whole = zlib.compress(bytes(range(256)) * 40)
    data = {
        "cut": whole[:-5],
        "changed": whole[:-1] + bytes([whole[-1] ^ 1]),
        "longer": whole + b"x",
        "whole": whole,
        "plain": b"\x80\x02text",
    }
    for name, value in data.items():
        in_rq(valkey, name, value)
    answer = on("import", "q", "--from", "rq:old")
    assert answer.code == 1
    assert "2 not imported: its data is damaged: the end of the compressed data is missing" in answer.err
    assert "1 not imported: its data is damaged: it cannot be decompressed" in answer.err
    assert payloads(queue) == [bytes(range(256)) * 40, b"\x80\x02text"]
    assert valkey.call("LRANGE", "rq:queue:old", 0, -1) == [b"cut", b"changed", b"longer"]


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        ("1e400", b"1e400"),
        ('{"a":1,"a":2}', b'{"a":1,"a":2}'),
        ("[1.10, 1E2]", b"[1.10, 1E2]"),
        (r'"a\u00fc\n"', "aü\n".encode()),
        (r'["\ud800"]', rb'["\ud800"]'),
        ("12345678901234567890123", b"12345678901234567890123"),
    ],
)
def test_data_of_queue_q_is_what_it_was(
    on: Claimq, valkey: Server, queue: BlockingQueue, value: str, payload: bytes
) -> None:
    valkey.call("LPUSH", "old_main", f'{{"t": 1, "b" : {value} , "e": {{"b": 2}}}}')
    assert on("import", "q", "--from", "fifo:old").code == 0
    assert payloads(queue) == [payload]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('{"b":NaN}', "the entry is not a JSON object"),
        ('{"b":-Infinity}', "the entry is not a JSON object"),
        ('{"b":1,"b":2}', "the entry has two fields b"),
        ('{"t":1}', "the entry has no field b"),
        ('{"b":"\\ud800"}', "its payload cannot be stored, since its text has a lone surrogate"),
        (b'{"b":"\xff"}', "the entry is not a JSON object"),
    ],
)
def test_data_of_queue_q_that_would_change_stays(
    on: Claimq, valkey: Server, queue: BlockingQueue, entry: str | bytes, why: str
) -> None:
    valkey.call("LPUSH", "old_main", '{"b":"one"}', entry, '{"b":"two"}')
    answer = on("import", "q", "--from", "fifo:old")
    assert (answer.code, payloads(queue)) == (1, [b"one", b"two"])
    assert f"1 not imported: {why}" in answer.err


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"data": "{"}, "its data is not JSON"),
        ({"data": '{"a":NaN}'}, "its data is not JSON"),
        ({"opts": "x"}, "its opts is not JSON"),
        ({"name": b"\xff"}, "its name is not UTF-8"),
    ],
)
def test_a_job_of_bullmq_that_is_no_json_stays(
    on: Claimq, valkey: Server, queue: BlockingQueue, fields: dict[str, Any], why: str
) -> None:
    in_bullmq(valkey, "1")
    valkey.call("HSET", "bull:old:1", *(word for pair in fields.items() for word in pair))
    in_bullmq(valkey, "2")
    answer = on("import", "q", "--from", "bullmq:old")
    assert (answer.code, queue.length()) == (1, 1)
    assert f"1 not imported: {why} (for example 1)" in answer.err


@pytest.mark.parametrize(
    ("there", "asked", "has"),
    [
        ("queue:mails", "sidekiq:mial", "it has sidekiq:mails"),
        ("shop:queue:mails", "sidekiq:mails", "it has sidekiq:mails --prefix shop"),
        ("rq:queue:mails", "rq:mail", "it has rq:mails; did you mean mails?"),
        ("shop:mails:meta", "bullmq:mails", "it has bullmq:mails --prefix shop"),
        ("bull:mails:meta", "bullmq:mail", "it has bullmq:mails --prefix bull; did you mean mails?"),
        ("mails_main", "fifo:mail", "it has fifo:mails; did you mean mails?"),
        ("mails", "list:mail", "it has list:mails; did you mean mails?"),
        ("mails", "rq:mails", "it has no queue of the kind rq"),
    ],
)
def test_a_wrong_name_is_an_error_with_the_names_that_exist(
    on: Claimq, valkey: Server, there: str, asked: str, has: str
) -> None:
    if there.endswith(":meta"):
        valkey.call("HSET", there, "version", "bullmq:6.7.0")
    else:
        valkey.call("LPUSH", there, '{"jid":"1"}')
    if asked.startswith("sidekiq:"):
        valkey.call("ZADD", "schedule", 1, '{"jid":"2","queue":"others"}')  # of all queues
    before = keys(valkey)
    for words in (["--dry-run"], [], ["--copy"]):
        answer = on("import", "q", "--from", asked, *words)
        assert answer.code == 1
        assert f"the server of the source has no queue {asked}; {has}" in answer.err
        assert answer.out == ""
        assert keys(valkey) == before


def test_a_name_that_two_prefixes_have_is_suggested_once(on: Claimq, valkey: Server) -> None:
    for prefix in ("bull", "shop"):
        valkey.call("HSET", f"{prefix}:mails:meta", "version", "bullmq:6.7.0")
    answer = on("import", "q", "--from", "bullmq:mail")
    assert "bullmq:mails --prefix bull, bullmq:mails --prefix shop; did you mean mails?" in answer.err


def test_a_queue_that_is_empty_now_is_no_wrong_name(on: Claimq, valkey: Server) -> None:
    valkey.call("SADD", "rq:queues", "rq:queue:mails")
    valkey.call("SADD", "queues", "mails")
    valkey.call("HSET", "bull:mails:meta", "version", "bullmq:6.7.0")
    for system in ("rq", "sidekiq", "bullmq"):
        assert on("import", "q", "--from", f"{system}:mails").code == 0


@pytest.mark.parametrize("words", [["--client", "a b"], ["--client", "Ü"]])
def test_a_wrong_client_is_refused_before_anything_is_taken(
    on: Claimq, valkey: Server, words: list[str]
) -> None:
    valkey.call("LPUSH", "old", "a")
    answer = on("import", "q", "--from", "list:old", *words)
    assert answer.code == 2
    assert "the client name" in answer.err
    assert valkey.call("KEYS", "*") == [b"old"]
