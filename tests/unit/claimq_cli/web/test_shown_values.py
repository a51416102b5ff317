"""How the web page shows payloads, errors and curves."""

import json

import pytest

from claimq.model import Item, Located, State
from claimq_cli.errors import CommandError
from claimq_cli.web.item_lists import MOST_BYTES, groups_of, within_bytes
from claimq_cli.web.listening import parse_address
from claimq_cli.web.payload import MOST_HEX, MOST_TEXT, Node, shown_payload, visible
from claimq_cli.web.plot import plot_of, spark_path
from claimq_cli.web.samples import WIDTH, Sample
from claimq_spec.http_host import is_own_host


def failed(error: str | None, payload: bytes = b"") -> Located:
    return Located(Item("a", payload, 1.0, 1.0, last_error=error), State.FAILED)


def test_json_is_a_tree_and_a_text_and_hexadecimal() -> None:
    shown = shown_payload(b'{"a": [1, null], "b": "<i>"}')
    assert shown.tree == Node(
        "", "2 fields", (Node("a", "2 entries", (Node("0", "1"), Node("1", "null"))), Node("b", '"<i>"'))
    )
    assert shown.text == '{"a": [1, null], "b": "<i>"}'
    assert shown.dump.startswith("000000  7b 22 61 22 3a")


def test_bytes_have_no_text() -> None:
    shown = shown_payload(b"\xff\x00A")
    assert (shown.text, shown.tree) == (None, None)
    assert shown.dump == f"000000  {'ff 00 41':<47}  ..A"


def test_a_large_payload_is_shown_in_part() -> None:
    shown = shown_payload(b"x" * 900_000)
    assert shown.size == 900_000
    assert shown.is_text_cut
    assert shown.is_dump_cut
    assert shown.text == "x" * MOST_TEXT
    assert len(shown.dump.splitlines()) == MOST_HEX // 16


def test_deep_and_wide_json_is_shown_in_part() -> None:
    wide = shown_payload(json.dumps(list(range(50_000))).encode()).tree
    assert wide is not None
    assert len(wide.children) + wide.omitted_count == 50_000
    assert wide.omitted_count > 40_000
    deep = shown_payload(b"[" * 200 + b"]" * 200).tree
    depth = 0
    while deep is not None and deep.children:
        deep, depth = deep.children[0], depth + 1
    assert depth < 50


def test_text_that_changes_the_direction_or_the_terminal_is_escaped() -> None:
    assert visible("a\n\tb\u202e\x1b[0m") == "a\n\tb\\u202e\\x1b[0m"


def test_failures_that_differ_in_numbers_have_one_reason() -> None:
    found = groups_of([failed("timeout after 17 ms\nmore"), failed("timeout after 4 ms"), failed(None)])
    assert [(one.reason, one.count) for one in found] == [
        ("timeout after # ms", 2),
        ("no error was given", 1),
    ]


@pytest.mark.parametrize("backward", [False, True])
async def test_a_list_of_large_items_ends_early(backward: bool) -> None:
    asked: list[int] = []

    async def read(count: int, offset: int) -> list[Located]:
        asked.append(count)
        return [failed(str(n), b"x" * 1_000_000) for n in range(offset, offset + count)]

    found, is_cut = await within_bytes(read, 0, 1_000_000, backward=backward)
    assert is_cut
    assert MOST_BYTES <= len(found) * 1_000_000 <= 3 * MOST_BYTES
    assert found[0].item.last_error == ("999999" if backward else "0")


@pytest.mark.parametrize("backward", [False, True])
async def test_a_list_of_small_items_is_whole_and_in_order(backward: bool) -> None:
    async def read(count: int, offset: int) -> list[Located]:
        return [failed(str(n)) for n in range(offset, offset + count)]

    found, is_cut = await within_bytes(read, 50, 1050, backward=backward)
    expected = [str(n) for n in range(50, 1050)]
    assert not is_cut
    assert [one.item.last_error for one in found] == (expected[::-1] if backward else expected)


def test_a_curve_has_its_peak_and_its_latest_value() -> None:
    points = [(float(n), 1000.0 if n == 5555 else 1.0) for n in range(10_000)]
    plot = plot_of("Items", [("main", points)], "{:.0f}".format)
    assert plot is not None
    assert plot.highest == "1000"
    assert plot.curves[0].now == "1"
    assert plot.curves[0].path.count("L") < 300
    assert " 0.0L" in plot.curves[0].path
    assert "main now 1; highest 1000" in plot.summary


def test_one_sample_is_no_curve() -> None:
    assert plot_of("Items", [("main", [(1.0, 1.0)])], str) is None
    assert spark_path([Sample(*[0.0] * WIDTH)], 10, 10) == ""


@pytest.mark.parametrize("text", ["127.0.0.1:80", "localhost:0", "[::1]:7380"])
def test_the_page_listens_on_loopback(text: str) -> None:
    assert parse_address(text).is_loopback


@pytest.mark.parametrize("text", ["0.0.0.0:80", "[::]:80", "192.0.2.7:1", "example.org:80"])
def test_the_page_listens_elsewhere_only_if_that_is_asked_for(text: str) -> None:
    with pytest.raises(CommandError, match="has no login"):
        parse_address(text)
    assert not parse_address(text, allow_remote=True).is_loopback


@pytest.mark.parametrize("text", ["", "127.0.0.1", ":80", "127.0.0.1:x", "127.0.0.1:99999", "::1:80"])
def test_a_malformed_address_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(CommandError, match="write HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("header", ["127.0.0.1:80", "localhost", "[::1]:9", "LOCALHOST:1", "box"])
def test_a_host_header_with_an_own_name_or_an_address_is_accepted(header: str) -> None:
    assert is_own_host(header, "box")


@pytest.mark.parametrize("header", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "a:b:c"])
def test_a_host_header_with_another_name_is_refused(header: str) -> None:
    assert not is_own_host(header, "127.0.0.1")
