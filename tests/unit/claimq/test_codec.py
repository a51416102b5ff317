"""Payloads to bytes, names, and the stored form of an item of any version."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.codec import check_name, kept_error, name_part, payload_bytes, read_envelope
from claimq.errors import ClaimqError, InvalidName, PayloadError
from claimq.model import HistoryEntry, Item


def test_bytes_are_stored_as_they_are() -> None:
    assert payload_bytes(b"\x00\xff") == b"\x00\xff"
    assert payload_bytes(bytearray(b"abc")) == payload_bytes(memoryview(b"abc")) == b"abc"
    assert payload_bytes(memoryview(b"abcdef")[::2]) == b"ace"


def test_text_is_stored_as_utf8() -> None:
    assert payload_bytes("grün") == "grün".encode()
    assert payload_bytes("") == b""


def test_dicts_and_lists_are_stored_as_json_without_spaces() -> None:
    assert payload_bytes({"a": [1, None, "ü"]}) == '{"a":[1,null,"ü"]}'.encode()
    assert payload_bytes([]) == b"[]"


@pytest.mark.parametrize("payload", [None, True, 3, 1.5, (1, 2), {1}, object()])
def test_anything_else_is_a_type_error_that_says_what_to_do(payload: object) -> None:
    with pytest.raises(TypeError, match=r"a payload is bytes, text.*encode it yourself"):
        payload_bytes(payload)


@pytest.mark.parametrize("payload", ["\ud800", {"a": float("nan")}, [float("inf")], {"a": "\udfff"}])
def test_what_has_no_form_in_utf8_or_json_is_a_value_error_that_says_what_to_do(payload: object) -> None:
    with pytest.raises(ValueError, match="encode it to bytes yourself"):
        payload_bytes(payload)


def test_a_list_within_itself_is_a_value_error() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="encode it to bytes yourself"):
        payload_bytes(endless)


def test_a_dict_of_what_json_has_no_form_for_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        payload_bytes({"a": object()})


def test_reading_a_payload_as_what_it_is_not_says_what_to_read_instead() -> None:
    item = Item("i", b"\xff\xfe", 0.0, 0.0)
    with pytest.raises(PayloadError, match=r"item i is not UTF-8 text; read .payload"):
        _ = item.text
    with pytest.raises(PayloadError, match=r"item i is not JSON.*read .text or .payload"):
        item.json()
    assert Item("i", b'{"a":1}', 0.0, 0.0).json() == {"a": 1}
    assert Item("i", "grün".encode(), 0.0, 0.0).text == "grün"


@pytest.mark.parametrize("name", ["q", "Thumbnails.v2_3-x", "7", "a" * 200])
def test_a_queue_name_of_letters_digits_and_some_marks_is_taken(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "the queue name has 1 to 200 characters"), ("a" * 300, "has 300"), ("{q}", "braces and colons"),
        ("a:b", "braces and colons"),
        ("a b", "without spaces"), ("a\nb", "printable"), ("grün", "ASCII"), ("-a", "begins with a letter"),
        (".", "begins with"),
        ("a/b", "may only have letters"), ("a*", "may only have letters"), ("q\x00", "printable"),
    ],
)  # fmt: skip
def test_another_queue_name_is_refused_with_the_rule_that_it_breaks(name: str, says: str) -> None:
    with pytest.raises(InvalidName, match=says) as caught:
        check_name("queue", name)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ClaimqError)


@pytest.mark.parametrize("name", ["w/1", "w{1}", "w*", "w?", "w[", "w%", "", "w 1", "w" * 201])
def test_a_worker_name_that_would_break_keys_or_tokens_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name("worker", name)


def test_a_client_may_have_any_printable_name_but_the_dash() -> None:
    assert check_name("client", "acme/{x}:y") == "acme/{x}:y"
    for name in ("-", "", "a b", "c" * 129):
        with pytest.raises(InvalidName):
            check_name("client", name)


def test_an_error_is_cut_to_its_first_thousand_characters_and_is_encodable() -> None:
    assert kept_error("x" * 2000) == "x" * 1000
    assert kept_error("a\ud800b") == "a?b"


def test_an_envelope_is_read() -> None:
    item = read_envelope(b"cq1 abc-1 1700000000123 - -\npay\nload")
    assert item == Item("abc-1", b"pay\nload", 1700000000.123, 1700000000.123)
    assert read_envelope(b"cq1 abc-1 1700000000123 acme -\n").client == "acme"
    assert read_envelope(b"cq1 abc-1 1700000000123 acme -\n").payload == b""


def test_the_counters_and_the_history_of_an_envelope_are_read() -> None:
    meta = {
        "requeues": 1, "fails": 2, "crashes": 3, "interrupts": 4, "given_up": 5, "first_at": 1699999999000,
        "error": "why",
        "history": [{"at": 1700000000000, "kind": "fail", "error": "why", "worker": "w1"}],
    }  # fmt: skip
    item = read_envelope(
        b"cq1!i 1700000000000 - " + json.dumps(meta, separators=(",", ":")).encode() + b"\nx"
    )
    assert item.first_enqueued_at == 1699999999.0
    counts = (
        item.requeue_count,
        item.fail_count,
        item.crash_count,
        item.interrupted_count,
        item.given_up_count,
    )
    assert counts == (1, 2, 3, 4, 5)
    assert item.last_error == "why"
    assert item.history == (HistoryEntry(1700000000.0, "fail", "why", "w1"),)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\x00", b"cq1", b"cq1 ", b"cq1 x", b"cq1 x 1 - -", b"cq1 x y - -\n", b"cq1  1 - -\n",
        b"cq1 x 1 -\n", b"cq2 x 1 - -\n",
        b"cq1 a\tb 1 - -\n", b"cq1 x 1234567890123456 - -\n", b"CQ1 x 1 - -\n", b"\ncq1 x 1 - -\n",
        b"cq1 x 1\n- -\n", b"cq1?x 1 - -\n",
    ],
)  # fmt: skip
def test_what_has_no_header_is_a_bare_payload_named_after_the_claim(raw: bytes) -> None:
    assert read_envelope(raw, "w/77.AAAAAAAA") == Item("bare-77", raw, 0.0, 0.0)


@pytest.mark.parametrize(
    "meta",
    [
        "{", "[]", "7", '{"requeues":"x"}', '{"requeues":-1}', '{"requeues":1e999}',
        '{"requeues":true}', '{"requeues":null}',
        '{"history":5}', '{"history":[5]}', '{"history":[{}]}', '{"history":[{"at":"x","kind":7}]}',
        '{"first_at":"x"}', '{"error":7}',
        '{"first_at":NaN}', "[" * 5000, '{"given_up":{}}',
    ],
)  # fmt: skip
def test_a_header_that_no_script_writes_makes_a_bare_payload_of_the_whole(meta: str) -> None:
    raw = b"cq1 i 1000 - " + meta.encode() + b"\nx"
    assert read_envelope(raw, "w/77.AAAAAAAA") == Item("bare-77", raw, 0.0, 0.0)


def test_the_headers_of_an_envelope_are_read_and_later_options_are_not() -> None:
    item = read_envelope(b'cq1 i 1000 - {"options":{"later":{"a":[1]},"headers":["a","\\"\\/","b",""]}}\nx')
    assert (item.payload, item.headers, item.first_enqueued_at) == (b"x", {"a": '"/', "b": ""}, 1.0)


def test_fields_of_a_later_release_and_an_emptied_history_are_read_past() -> None:
    item = read_envelope(b'cq1 i 1000 - {"history":{},"fails":1,"later":{"a":[null]},"place":"7"}\nx')
    assert (item.id, item.payload, item.fail_count, item.history) == ("i", b"x", 1, ())


@pytest.mark.parametrize(
    ("host", "part"),
    [
        ("münchen", "m-nchen"),
        ("db_1.example-2", "db_1.example-2"),
        ("東京", "--"),
        ("", "host"),
        ("a b/c{d}*", "a-b-c-d--"),
        ("x" * 300, "x" * 100),
    ],
)
def test_any_name_of_a_host_becomes_a_part_of_a_valid_workers_name(host: str, part: str) -> None:
    assert name_part(host) == part
    assert check_name("worker", f"{name_part(host)}-1")


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"cq1 i 1 - " + tail))
def test_reading_never_fails_and_keeps_every_byte(raw: bytes) -> None:
    item = read_envelope(raw)
    assert raw.endswith(item.payload)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["at", "kind", "error"]), inner)
    ),
    max_leaves=5,
)
names = st.sampled_from(
    ["options", "headers", "requeues", "fails", "crashes", "given_up", "first_at", "error", "history", "else"]
)


@given(st.dictionaries(names, json_values))
def test_reading_any_meta_never_fails(meta: dict[str, object]) -> None:
    raw = b"cq1 i 1000 - " + json.dumps(meta, separators=(",", ":")).encode() + b"\nx"
    item = read_envelope(raw)
    assert item.payload in (b"x", raw)
