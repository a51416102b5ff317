"""The program of `claimq worker`, its arguments and its environment."""

import os

import pytest

from claimq import Fail, Item
from claimq_admin.errors import CommandError
from claimq_cli.item_programs.command_line import CommandLine, checked, environment_for

LONGEST = 32 * os.sysconf("SC_PAGE_SIZE") - 1


def test_a_payload_goes_to_stdin_without_a_placeholder() -> None:
    command = checked(["cat", "-n"], None)
    assert command.arguments_for(b"x\0") == (b"cat", b"-n")
    assert command.stdin_for(b"x\0") == b"x\0"


def test_a_payload_replaces_the_placeholder_in_each_argument() -> None:
    command = checked(["cat", "a{}b{}", "c"], "{}")
    assert command.arguments_for(b"\xff") == [b"cat", b"a\xffb\xff", b"c"]
    assert command.stdin_for(b"\xff") == b""


@pytest.mark.parametrize(
    ("payload", "problem"),
    [(b"a\0", "has a NUL byte"), (b"x" * (LONGEST + 1), "is too long for an argument")],
)
def test_a_payload_that_cannot_be_an_argument_fails_permanently(payload: bytes, problem: str) -> None:
    with pytest.raises(Fail, match=problem) as caught:
        CommandLine((b"cat", b"{}"), b"{}").arguments_for(payload)
    assert caught.value.permanent


def test_a_payload_may_fill_an_argument() -> None:
    assert CommandLine((b"cat", b"{}"), b"{}").arguments_for(b"x" * LONGEST) == [b"cat", b"x" * LONGEST]


@pytest.mark.parametrize(
    ("words", "placeholder", "problem"),
    [
        (["no-such-program"], None, "no program no-such-program on PATH"),
        (["./no-such-program"], None, "no program ./no-such-program; correct"),
        (["/usr"], None, "/usr is a directory"),
        (["/etc/passwd"], None, "/etc/passwd is not executable"),
        (["cat", "x"], "", "is empty"),
        (["cat", "cat"], "cat", "contains the placeholder"),
        (["cat", "x"], "{}", "no argument of cat contains {}"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], placeholder: str | None, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        checked(words, placeholder)


def test_the_environment_describes_the_item() -> None:
    item = Item(
        "a",
        b"",
        1.0,
        1.0,
        requeue_count=1,
        fail_count=2,
        crash_count=3,
        client="c",
        header_pairs=(("x-y", "1"),),
    )
    expected = {
        "X": "y",
        "CLAIMQ_QUEUE": "q",
        "CLAIMQ_ITEM_ID": "a",
        "CLAIMQ_ITEM_PRIORITY": "normal",
        "CLAIMQ_ITEM_COST": "1",
        "CLAIMQ_ITEM_REQUEUE_COUNT": "1",
        "CLAIMQ_ITEM_FAIL_COUNT": "2",
        "CLAIMQ_ITEM_CRASH_COUNT": "3",
        "CLAIMQ_ITEM_INTERRUPTED_COUNT": "0",
        "CLAIMQ_ITEM_POSTPONED_COUNT": "0",
        "CLAIMQ_ITEM_GIVEN_UP_COUNT": "0",
    }
    outer = {"X": "y", "CLAIMQ_ITEM_CLIENT": "outer", "CLAIMQ_ITEM_HEADER_OUTER": "1"}
    own = {"CLAIMQ_ITEM_CLIENT": "c", "CLAIMQ_ITEM_HEADER_X_Y": "1"}
    assert environment_for(outer, "q", item) == {**expected, **own}
    assert (
        environment_for(outer, "q", Item("a", b"", 1.0, 1.0, requeue_count=1, fail_count=2, crash_count=3))
        == expected
    )
