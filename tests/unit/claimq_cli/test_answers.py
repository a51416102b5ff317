"""What the commands print: JSON with documented names, tables, one-line errors."""

import json

import pytest

from claimq.errors import InvalidName, InvalidSpec, Problem, StoreFull, StoreMisused, StoreUnavailable
from claimq.model import HistoryEntry, Item, Located, State
from claimq_admin import errors
from claimq_admin.name_order import in_order
from claimq_admin.reads import documents
from claimq_admin.text import age, count, payload
from claimq_cli.output.answers import Answers


def item(raw: bytes) -> Item:
    return Item("a", raw, enqueued_at=2.0, first_enqueued_at=1.0)


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        (b'{"a": [1]}', {"payload": {"a": [1]}}),
        (b"17", {"payload": 17}),
        (b"null", {"payload": None}),
        (b"/some/path", {"text": "/some/path"}),
        ("größe".encode(), {"text": "größe"}),
        (b"", {"text": ""}),
        (b"NaN", {"text": "NaN"}),
        (b'{"a": [1e400]}', {"text": '{"a": [1e400]}'}),
        (b"-1e400", {"text": "-1e400"}),
        (b"1e308", {"payload": 1e308}),
        (b"[" * 90 + b"]" * 90, {"payload": json.loads("[" * 90 + "]" * 90)}),
        (b"[" * 330 + b"]" * 330, {"text": "[" * 330 + "]" * 330}),
        (b'{"a":' * 330 + b"1" + b"}" * 330, {"text": '{"a":' * 330 + "1" + "}" * 330}),
        (b"\xff\x00", {"payload_base64": "/wA="}),
        (b"[" * 100_000, {"text": "[" * 100_000}),
    ],
)
def test_a_payload_stands_under_the_name_that_says_what_it_is(raw: bytes, shape: dict[str, object]) -> None:
    assert documents.payload_of(raw) == shape


def test_an_item_has_all_its_documented_fields() -> None:
    history = (HistoryEntry(3.0, "fail", "no", "w"),)
    one = Item("a", b"x", 2.0, 1.0, "c", 1, 2, 3, 4, 6, 5, "no", history, header_pairs=(("h", "v"),))
    assert documents.item(one) == {
        "id": "a", "text": "x", "client": "c", "first_enqueued_at": 1.0, "enqueued_at": 2.0, "requeue_count": 1,
        "fail_count": 2, "crash_count": 3, "interrupted_count": 4, "postponed_count": 6, "given_up_count": 5,
        "last_error": "no", "error_detail": None, "failed_reason": None, "headers": {"h": "v"}, "deadline": None,
        "max_requeues": None,
        "priority": "normal", "key": None, "cost": 1,
        "history": [{"at": 3.0, "kind": "fail", "error": "no", "worker": "w"}],
    }  # fmt: skip


def test_a_located_item_has_null_where_its_state_has_nothing() -> None:
    found = documents.located(Located(item(b"1"), State.MAIN))
    assert found["name"] == "a"
    assert [found[name] for name in ("worker", "claimed_at", "lease_until", "due_at", "failed_at")] == [
        None
    ] * 5


def test_json_goes_out_as_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    Answers("json").give_table({"items": []}, ["id"], [], nothing="nothing")
    assert json.loads(capsys.readouterr().out) == {"items": []}


def test_a_table_in_a_pipe_cuts_nothing_off(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    Answers("table").give_table({}, ["id", ">n", "payload"], [["a", "1", long], ["b", "22", "short"]])
    header, _, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "n", "payload"]
    assert first.split() == ["a", "1", long]
    assert second == second.rstrip()


def test_a_wide_table_is_not_fitted_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("claimq_cli.output.terminal._terminal_width", lambda: 30)
    for form, is_whole in (("table", False), ("wide", True)):
        Answers(form).give_table({}, ["id", "~error"], [["a", "e" * 50]])
        assert ("e" * 50 in capsys.readouterr().out) is is_whole


def test_names_are_a_line_each_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    answers = Answers("name")
    answers.give_table({}, ["queue", ">main"], [["a (paused)", "1"], ["b", "2"]])
    answers.give_table({"queue": "q"}, ["id"], [], nothing="q: nothing in main")
    answers.give({"queue": "q", "ids": ["x", "y"]}, "q: 2 items enqueued")
    answers.give({"queue": "q", "changed": ["z"], "unchanged": []}, "q: z removed")
    answers.give({"queue": "q", "paused": True}, "q: paused")
    answers.give({"server": "Valkey"}, "Valkey 9")
    assert capsys.readouterr().out.splitlines() == ["a", "b", "x", "y", "z", "q", "Valkey 9"]


@pytest.mark.parametrize(
    ("total", "end"), [(3000, "2 of 3,000; --limit shows more\nnote\n"), (2, "b\nnote\n")]
)
def test_a_part_of_a_list_says_of_how_many_rows(
    capsys: pytest.CaptureFixture[str], total: int, end: str
) -> None:
    Answers("table").give_table({}, ["id"], [["a"], ["b"]], notes=["note"], total=total)
    assert capsys.readouterr().out.endswith(end)


def test_numbers_in_names_are_sorted_by_their_value() -> None:
    assert sorted(["q-10", "b", "q-2", "q", "10", "q-2b", "2.x"], key=in_order) == [
        "2.x", "10", "b", "q", "q-2", "q-2b", "q-10",
    ]  # fmt: skip


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Answers("table").give_table({}, ["id"], [], nothing="q: nothing in main")
    assert capsys.readouterr().out == "q: nothing in main\n"


def test_what_cannot_be_printed_is_escaped_and_what_is_long_is_cut() -> None:
    assert payload(item(b"a\nb\x1b[31m\xff")) == "a\\nb\\x1b[31m\\xff"
    assert payload(item(b"x" * 101)) == "x" * 100 + "…"


def test_an_age_is_a_rounded_duration_or_a_dash() -> None:
    assert (age(None), age(57.4)) == ("-", "57 s")


def test_numbers_agree_with_their_nouns() -> None:
    assert (count(1), count(2), count(0)) == ("1 item", "2 items", "0 items")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CommandError("x"), 1),
        (errors.CommandError("x", errors.USAGE), 2),
        (ValueError("x"), 2),
        (InvalidName("x"), 2),
        (OSError("disk full"), 1),
        (StoreUnavailable("x"), 3),
        (StoreFull("x"), 4),
        (StoreMisused("x"), 4),
        (InvalidSpec([Problem("spec", "x")]), 5),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert errors.exit_code_of(error) == code


def test_an_error_is_one_line_and_a_manifest_has_one_for_each_mistake() -> None:
    assert errors.lines_of(ValueError("a\n b")) == ["a b"]
    assert errors.lines_of(ValueError()) == ["ValueError"]
    problems = InvalidSpec([Problem("spec.a", "is wrong"), Problem("spec.b", "is missing")])
    assert errors.lines_of(problems) == ["spec.a: is wrong", "spec.b: is missing"]
    unavailable = StoreUnavailable("claim: no answer from the server (TimeoutError)")
    assert errors.lines_of(unavailable)[0].startswith(f"{unavailable} - start the server")
    assert errors.lines_of(StoreUnavailable("MISCONF: cannot persist")) == ["MISCONF: cannot persist"]
