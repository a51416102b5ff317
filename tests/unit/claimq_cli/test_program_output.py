"""What is kept of the output of a program that works on an item."""

import pytest

from claimq_cli.item_programs.output import KEPT_BYTES, Tail

TRACEBACK = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nSystemError: 7\n'


@pytest.mark.parametrize("before", [b"", b"a warning\n" * KEPT_BYTES])
def test_the_reason_is_the_end_of_a_traceback_whatever_stdout_has_after_it(before: bytes) -> None:
    tail = Tail()
    tail.add(before + TRACEBACK, is_stderr=True)
    tail.add(b"1\n", is_stderr=False)
    assert tail.error_line == "SystemError: 7"


def test_the_reason_is_the_first_line_of_other_errors() -> None:
    tail = Tail()
    tail.add(b"\n no space\n", is_stderr=True)
    tail.add(b"b\n" * KEPT_BYTES, is_stderr=True)
    assert tail.error_line == "no space"
