"""What is read of the logs of killed programs."""

from pathlib import Path

import pytest

from testkit.programs.processes import whole_lines


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("", []),
        ("end ", []),
        ("end 1", []),
        ("end 1\n", ["end 1"]),
        ("end 1\nend ", ["end 1"]),
        ("\n\n", ["", ""]),
        ("a\u2028b\r\n", ["a\u2028b"]),
    ],
)
def test_a_line_without_its_end_is_left_out(tmp_path: Path, written: str, lines: list[str]) -> None:
    log = tmp_path / "log"
    log.write_text(written)
    assert whole_lines(log) == lines


def test_a_log_that_was_not_begun_has_no_lines(tmp_path: Path) -> None:
    assert whole_lines(tmp_path / "log") == []
