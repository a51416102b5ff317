"""Items in JSON lines and CSV files."""

import re

import pytest

from claimq.model import NewItem
from claimq_admin.item_files.item_files import CsvFile, item_of_json

LONGEST = 64 * 1024 * 1024


def items_of(text: bytes) -> list[tuple[int, NewItem]]:
    file, found = CsvFile(), list[tuple[int, NewItem]]()
    for number, line in enumerate(text.split(b"\n"), 1):
        record = file.record(number, line)
        if record is not None:
            found.append((record[0], file.item(record[1])))
    if (rest := file.rest()) is not None:
        found.append((rest[0], file.item(rest[1])))
    return found


@pytest.mark.parametrize(
    ("line", "item"),
    [
        (b'{"payload": "x"}', NewItem(b"x")),
        (b'{"payload": [1], "id": "a", "client": "c", "at": 5}', NewItem(b"[1]", id="a", client="c", at=5.0)),
        (b'{"payload_base64": "/w==", "payload": null}', NewItem(b"\xff")),
        (b'{"payload": "x", "id": "", "client": null, "at": ""}', NewItem(b"x")),
        (b'{"payload": "x", "id": 17}', NewItem(b"x", id="17")),
        (b'{"payload": "x", "id": 1.50, "client": 1e400}', NewItem(b"x", id="1.50", client="1e400")),
        (
            b' { "payload" : {"b": 1.0, "a": 1e400, "a": 1E2, "n": -0, "t": "\\u00e9\xc3\xa9"} , "id":"a" } ',
            NewItem(b'{"b": 1.0, "a": 1e400, "a": 1E2, "n": -0, "t": "\\u00e9\xc3\xa9"}', id="a"),
        ),
        (b'{"payload": [' + b"9" * 5000 + b"]}", NewItem(b"[" + b"9" * 5000 + b"]")),
        (b'{"payload": "x", "headers": {"a": "1"}}', NewItem(b"x", headers={"a": "1"})),
        (b'{"payload": "x", "headers": {}}', NewItem(b"x")),
        (b'{"payload": "x", "priority": "low"}', NewItem(b"x", priority="low")),
        (b'{"payload": "x", "priority": null}', NewItem(b"x")),
        (b'{"payload": "x", "key": "k"}', NewItem(b"x", key="k")),
        (b'{"payload": "x", "key": ""}', NewItem(b"x")),
        (b'{"payload": "x", "max_requeues": 0}', NewItem(b"x", max_requeues=0)),
        (b'{"payload": "x", "max_requeues": "1000000"}', NewItem(b"x", max_requeues=1_000_000)),
        (b'{"payload": "x", "max_requeues": ""}', NewItem(b"x")),
        (b'{"payload": "x", "deadline": 7}', NewItem(b"x", deadline=7.0)),
    ],
)
def test_a_json_line_is_an_item(line: bytes, item: NewItem) -> None:
    assert item_of_json(line) == item


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"7", "not a JSON object with a payload"),
        (b"{", "not a JSON object with a payload"),
        (b"{}", "it needs one of the fields payload"),
        (b'{"payload": "x", "payload_base64": "eA=="}', "it needs one of the fields payload"),
        (b'{"payload": 7}', "a payload is bytes"),
        (b'{"payload": "x", "payload": "y"}', "the name 'payload' comes twice in an object"),
        (b'{"payload": "x", "headers": {"b": "1", "b": "2"}}', "the name 'b' comes twice in an object"),
        (b'{"payload": {"a": NaN}}', "not a JSON object with a payload"),
        (b'{"payload": {"a": 1},}', "not a JSON object with a payload"),
        (b'{"payload": {"a": 1}} {}', "not a JSON object with a payload"),
        (b'{"payload": 1e400}', "a payload is bytes, text"),
        (b'{"payload": "\\ud800"}', "this payload cannot be stored as text or JSON"),
        (b'{"payload": "\xff"}', "not a JSON object with a payload"),
        (b'{"payload": "x", "at": -1}', "at is -1.0; give 0 to 1e+11, Unix seconds"),
        (b'{"payload": "x", "at": 1893456000000}', "at is 1893456000000.0; give 0 to"),
        (b'{"payload": "x", "at": "0001-01-01T00:00:00Z"}', "at is -62135596800.0; give 0 to"),
        (b'{"payload": "x", "at": 1e400}', "at is inf; give 0 to"),
        (b'{"payload": "x", "at": "2030"}', "at is not an instant"),
        (b'{"payload_base64": "eA==!"}', "payload_base64 is not base64"),
        (b'{"payload": "x", "id": "a b"}', "the item id 'a b'"),
        (b'{"payload": "x", "id": false}', "id is bool; give text"),
        (b'{"payload": "x", "client": ["a"]}', "client is list; give text"),
        (b'{"payload": "x", "at": "soon"}', "at is not an instant"),
        (b'{"payload": "x", "deadline": true}', "deadline is not an instant"),
        (b'{"payload": "x", "priority": 7}', "priority is 7; give one of: high, normal, low"),
        (b'{"payload": "x", "key": 7}', "key is int; give text"),
        (
            b'{"payload": "x", "key": "a b"}',
            "key is 'a b'; give 1 to 128 printable ASCII",
        ),
        (b'{"payload": "x", "headers": ["a"]}', "headers is list; give a mapping"),
        (b'{"payload": "x", "headers": {"A": "1"}}', "a header's name is 'A'"),
        (b'{"payload": "x", "deadline": "soon"}', "deadline is not an instant"),
        (b'{"payload": "x", "max_requeues": -1}', "max_requeues is not a whole number from 0 to 1,000,000"),
        (b'{"payload": "x", "max_requeues": 1000001}', "max_requeues is not a whole number"),
        (b'{"payload": "x", "max_requeues": "10000000"}', "max_requeues is not a whole number"),
        (b'{"payload": "x", "max_requeues": "00000000099999999"}', "max_requeues is not a whole number"),
        (b'{"payload": "x", "max_requeues": "%b"}' % (b"0" * 5000), "max_requeues is not a whole number"),
        (b'{"payload": "x", "max_requeues": true}', "max_requeues is not a whole number"),
        ('{"payload": "x", "max_requeues": "\u0667"}'.encode(), "max_requeues is not a whole number"),
    ],
)
def test_a_wrong_json_line_is_refused_with_its_problem(line: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        item_of_json(line)


def test_a_csv_record_has_the_number_of_its_first_line() -> None:
    text = b'\xef\xbb\xbfid,payload\none,"a\n""b"""\n\ntwo,c'
    assert items_of(text) == [(2, NewItem(b'a\n"b"', id="one")), (5, NewItem(b"c", id="two"))]


def test_each_quoted_field_of_csv_ends_with_its_own_quotation_mark() -> None:
    assert items_of(b'payload,id\n"a,b",1\n"c",2') == [
        (2, NewItem(b"a,b", id="1")),
        (3, NewItem(b"c", id="2")),
    ]


def test_a_csv_record_may_have_its_payload_in_base64() -> None:
    text = b"payload,payload_base64\n,/w==\nx,"
    assert items_of(text) == [(2, NewItem(b"\xff")), (3, NewItem(b"x"))]


@pytest.mark.parametrize("separator", [b",", b";", b"\t"])
def test_columns_of_csv_have_commas_semicolons_or_tabs(separator: bytes) -> None:
    text = separator.join([b"id", b"payload"]) + b"\n" + separator.join([b"1", b'"a,b;c\td"']) + b"\n"
    assert items_of(text) == [(2, NewItem(b"a,b;c\td", id="1"))]


def test_a_payload_of_blanks_in_csv_is_a_payload() -> None:
    assert items_of(b'payload\n  \n\n""\n') == [(2, NewItem(b"  ")), (4, NewItem(b""))]


def test_other_columns_of_csv_become_a_json_object() -> None:
    assert items_of(b"id,client,at,to,size\n1,c,5,ann,7") == [
        (2, NewItem(b'{"to":"ann","size":"7"}', id="1", client="c", at=5.0))
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b"y", "number of fields: 1, but the first line has 2"),
        (b"y,1,2", "number of fields: 3, but the first line has 2"),
        (b"\xff,1", "not UTF-8"),
        (b'"x"y,1', "not CSV"),
        (b'x,1\n"y,2\nz,3', "a quoted field begins in this record and does not end"),
        (b'5" pipe,1\n6" pipe,2', "several records in one"),
        (b"x,1\ry,2", "several records in one"),
    ],
)
def test_a_wrong_csv_record_is_refused_with_its_problem(row: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        items_of(b"payload,id\n" + row)


def test_a_quoted_field_that_does_not_end_is_refused() -> None:
    file, part = CsvFile(), b"x" * (LONGEST // 2 - 1)
    assert file.record(1, b"payload") is None
    assert file.record(2, b'"' + part) is None
    assert file.record(3, part + b"x") is None
    with pytest.raises(ValueError, match="line 2: a quoted field begins in this record"):
        file.record(4, b"x")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (b"payload,id,payload", "line 1: two columns have the name 'payload'"),
        (b"id,payload,payload,id", "line 1: two columns have the name 'id'"),
        (b"id;payload,client", "line 1: the column 'id;payload' has a semicolon, a tab or a NUL in its name"),
        (b"i\0d\0,\0p", "line 1: the column 'i\\x00d\\x00' has a semicolon, a tab or a NUL"),
        (b'payload,"id', "line 1: a quoted field begins in this record and does not end"),
        (b"payload,id\rx,1", "line 1: several records in one"),
    ],
)
def test_wrong_columns_are_refused_before_any_record(columns: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        items_of(columns + b"\nx,1")
