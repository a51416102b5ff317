"""How the web page shows payloads."""

import json

from claimq_web.payload import Node, shown_payload, visible


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
    assert shown.text == "x" * 64 * 1024
    assert len(shown.dump.splitlines()) == 4 * 1024 // 16
    assert not shown_payload(b"x" * 64 * 1024).is_text_cut
    assert not shown_payload(b"x" * 4 * 1024).is_dump_cut


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


def test_a_tree_has_2000_values() -> None:
    exact, wide = (shown_payload(json.dumps([1] * count).encode()).tree for count in (2000, 2001))
    assert exact is not None
    assert wide is not None
    assert (len(exact.children), exact.omitted_count) == (2000, 0)
    assert (len(wide.children), wide.omitted_count) == (2000, 1)


def test_a_long_name_or_value_of_a_tree_is_cut_to_2000_characters() -> None:
    tree = shown_payload(json.dumps({"n" * 2001: "v" * 1999, "m": "v" * 1998}).encode()).tree
    assert tree is not None
    assert [(one.name, one.text) for one in tree.children] == [
        ("n" * 2000, '"' + "v" * 1999 + "…"),
        ("m", '"' + "v" * 1998 + '"'),
    ]


def test_one_field_and_one_entry_are_singular() -> None:
    assert shown_payload(b'{"a": [1]}').tree == Node(
        "", "1 field", (Node("a", "1 entry", (Node("0", "1"),)),)
    )


def test_each_row_of_hexadecimal_has_sixteen_bytes_and_their_printable_characters() -> None:
    assert shown_payload(b"\x1f ~\x7f" + b"a" * 12 + b"b").dump.splitlines() == [
        "000000  1f 20 7e 7f" + " 61" * 12 + "  . ~." + "a" * 12,
        f"000010  {'62':<47}  b",
    ]


def test_text_that_changes_the_direction_or_the_terminal_is_escaped() -> None:
    assert visible("a\n\tb\u202e\x1b[0m") == "a\n\tb\\u202e\\x1b[0m"


def test_json_is_unfolded_to_24_levels() -> None:
    node, levels = shown_payload(b"[" * 30 + b"]" * 30).tree, 0
    while node is not None and node.children:
        node, levels = node.children[0], levels + 1
    assert levels == 24
    assert node is not None
    assert node.omitted_count == 1


def test_json_of_up_to_1_mib_is_a_tree() -> None:
    largest = b'"' + b"x" * (1024 * 1024 - 2) + b'"'
    assert shown_payload(largest).tree is not None
    assert shown_payload(largest + b" ").tree is None
