"""What an export writes, an import reads as the same payloads, whatever their bytes."""

import asyncio
import csv
import io
import tempfile
from typing import BinaryIO, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from claimq.model import Item, Located, State
from claimq_admin.errors import CommandError
from claimq_admin.item_files.item_files import CsvFile, item_of_json
from claimq_cli.commands.moving.import_files import CsvLines
from claimq_cli.commands.moving.input_source import InputSource
from claimq_cli.migration.item_writer import ItemWriter

ODD = [
    b"", b" ", b"\r", b"\n", b"a\r", b"\ra", b"a\r\n", b"\0", b"a\0b", b"\xff", b"\xef\xbb\xbfa", b"\xff\xfea",
    b'"', b'""', b",", b";", b"\t", b"=1+1", b"NaN", b"1e400", b'{"a":1,"a":2}', "\u2028\x85".encode(),
    b"\xed\xa0\x80", b"null",
]  # fmt: skip
PIECES = st.sampled_from([*ODD, b"a", "\u00fc".encode(), b"\x1a"])
PAYLOADS = st.lists(st.one_of(st.binary(max_size=9), st.lists(PIECES, max_size=4).map(b"".join)), max_size=6)


def written(payloads: list[bytes], form: str, end: bytes = b"\n") -> bytes:
    file = io.BytesIO()
    writer = ItemWriter(cast("BinaryIO", file), form, end)
    items = [Item(f"i{n}", payload, 1.0, 1.0) for n, payload in enumerate(payloads)]
    writer.write([Located(item, State.MAIN) for item in items])
    return file.getvalue()


def read(content: bytes, form: str, end: bytes = b"\n") -> list[bytes]:
    """The payloads of a file with this content."""

    async def lines() -> list[bytes]:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            with InputSource(file.name) as source:
                records = CsvFile()
                read = CsvLines(source, records) if form == "csv" else source
                raw = [
                    line
                    for one in [p async for p in read.portions(end, asyncio.Event())]
                    for _, line in one.lines
                ]
        if form == "raw":
            return raw
        items = [records.item(line) if form == "csv" else item_of_json(line) for line in raw]
        return [item.payload for item in items if isinstance(item.payload, bytes)]

    return asyncio.run(lines())


@pytest.mark.parametrize(("form", "end"), [("jsonl", b"\n"), ("csv", b"\n"), ("raw", b"\0"), ("raw", b"\n")])
@given(payloads=PAYLOADS)
@example(payloads=ODD)
def test_each_format_gives_back_the_payloads(form: str, end: bytes, payloads: list[bytes]) -> None:
    if form == "raw":
        payloads = [payload for payload in payloads if is_readable(payload, end)]
    assert read(written(payloads, form, end), form, end) == payloads


def is_readable(payload: bytes, end: bytes) -> bool:
    """Whether the raw form takes a payload; then it must be able to give it back."""
    try:
        written([payload], "raw", end)
    except CommandError:
        return False
    return True


@pytest.mark.parametrize("payload", [b"", b"a\r", b"a\nb", b"\xef\xbb\xbfa", b"\xff\xfea", b"\xfe\xffa"])
def test_a_line_that_would_change_is_not_written(payload: bytes) -> None:
    with pytest.raises(CommandError, match="use --null or --format jsonl"):
        written([payload], "raw")
    assert read(written([payload], "raw", b"\0"), "raw", b"\0") == [payload]


def test_a_payload_with_a_nul_is_not_written_with_nuls() -> None:
    with pytest.raises(CommandError, match="contains the separator; use --format jsonl"):
        written([b"a\0"], "raw", b"\0")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("form", ["jsonl", "csv", "raw"])
def test_text_files_may_begin_with_a_byte_order_mark(form: str, encoding: str) -> None:
    text = written([b"one", "zw\u00f6lf \U0001f600".encode()], form).decode()
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    assert read((mark + text).encode(encoding), form) == [b"one", "zw\u00f6lf \U0001f600".encode()]


@pytest.mark.parametrize("content", [b"\xff\xfea\0b", b"\xff\xfe\x00\xd8a\0"], ids=["half", "surrogate"])
def test_bytes_that_only_begin_as_utf_16_are_refused(content: bytes) -> None:
    with pytest.raises(CommandError, match="begins with the mark of UTF-16 and has other bytes"):
        read(content, "raw")


def test_with_nul_bytes_nothing_is_skipped_or_cut() -> None:
    assert read(b"\xef\xbb\xbfa\r\0\0\n\0", "raw", b"\0") == [b"\xef\xbb\xbfa\r", b"", b"\n"]


FORMULAS = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "=", "-"]


def csv_rows(items: list[Item]) -> tuple[bytes, list[list[str]]]:
    file = io.BytesIO()
    ItemWriter(cast("BinaryIO", file), "csv").write([Located(item, State.MAIN) for item in items])
    return file.getvalue(), [*csv.reader(io.StringIO(file.getvalue().decode(), newline=""))]


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_a_csv_file_begins_a_formula(formula: str) -> None:
    item = Item("i", formula.encode(), 1.0, 1.0)
    bytes_like_one = Item("j", b"\xfb\xff", 1.0, 1.0)
    content, (_, *rows) = csv_rows([item, bytes_like_one])
    assert [cell for row in rows for cell in row if cell[:1] in "=+-@\t\r\n\uff1d" and cell] == []
    assert rows[0][1] == f"'{formula}"
    assert read(content, "csv") == [item.payload, bytes_like_one.payload]


def test_ids_and_keys_that_look_like_formulas_are_imported_as_they_were() -> None:
    item = Item("=cmd", b"'=quoted", 1.0, 1.0, client="@c", key="'-k")
    content, _ = csv_rows([item])
    records = CsvFile()
    lines = [records.record(number, line) for number, line in enumerate(content.splitlines(), 1)]
    assert lines[1] is not None
    new = records.item(lines[1][1])
    assert (new.payload, new.id, new.client, new.key) == (b"'=quoted", "=cmd", "@c", "'-k")


def test_an_apostrophe_of_another_programs_file_stays() -> None:
    assert read(b"payload,id\n'=1+1,'a\n", "csv") == [b"'=1+1"]
    assert read(b"payload,escaped\n'=1+1,yes\n", "csv") == [b"'=1+1"]
    assert read(b"a,escaped\n'b,a\n", "csv") == [b'{"a":"\'b","escaped":"a"}']
    assert read(b"payload,escaped\n=edited,payload\n", "csv") == [b"=edited"]


NUMBERS = st.sampled_from(["0", "-0", "1.0", "1E2", "1e400", "-1e-400", "0.1000", "9" * 30, "9" * 5000])
TEXTS = st.sampled_from(['""', '"\\u00e9"', '"\u00e9"', '"\\/"', '"\\ud800"', "true", "null"])
BLANKS = st.sampled_from(["", " ", "\t "])
MEMBERS = st.tuples(BLANKS, st.sampled_from(['"a"', '"b"', '"payload"']), BLANKS)


def containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(MEMBERS, values).map(lambda one: f"{''.join(one[0])}:{one[1]}")
    return st.lists(values, max_size=3).map(lambda found: f"[{', '.join(found)}]") | st.lists(
        members, max_size=3
    ).map(lambda found: f"{{{','.join(found)}}}")


VALUES = st.recursive(NUMBERS | TEXTS, containers, max_leaves=8)


@given(text=containers(VALUES), before=BLANKS, after=BLANKS)
def test_an_object_or_list_in_a_json_line_is_stored_as_it_is_written(
    text: str, before: str, after: str
) -> None:
    item = item_of_json(f'{{"id":"x","payload":{before}{text}{after},"client":"c"}}'.encode())
    assert (item.payload, item.id, item.client) == (text.encode(), "x", "c")
