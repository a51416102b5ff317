"""Log lines: one form, one line a record, readable back whatever is in it."""

import logging
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from claimq_process.log_lines import LogEvent, LogLines
from testkit.programs.logfmt import read_line, read_log
from testkit.repository.tree import ROOT

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NASTY = ' a=b "quoted" \\n back\\slash\n\r\t\x00\x1b[31m\x7f\x85\u2028\u202e\ufeff\U000e0001 '


def line_of(message: object, *arguments: object, quotes_errors: bool = True, **of_record: Any) -> str:
    given_by_logging = {"name": "claimq.test", "levelno": logging.INFO, "msg": message, "args": arguments}
    record = logging.makeLogRecord({**given_by_logging, **of_record})
    return LogLines(quotes_errors=quotes_errors).format(record)


def raised(error: Exception, cause: Exception | None = None) -> dict[str, Any]:
    try:
        raise error from cause
    except type(error):
        return {"exc_info": sys.exc_info()}


def test_a_line_has_the_instant_the_level_the_logger_the_event_and_its_fields() -> None:
    created = datetime(2026, 1, 31, 8, 56, 21, 754_900, UTC).timestamp()
    event = LogEvent("claims_lost", claims=3, cause="the lease", is_last=True, pod=None)
    assert line_of(event, created=created) == (
        "ts=2026-01-31T08:56:21.754Z level=info logger=claimq.test event=claims_lost claims=3"
        ' cause="the lease" is_last=true'
    )


@pytest.mark.parametrize(
    ("number", "level"),
    [
        (5, "debug"),
        (logging.DEBUG, "debug"),
        (logging.INFO, "info"),
        (25, "info"),
        (logging.WARNING, "warn"),
        (logging.ERROR, "error"),
        (logging.CRITICAL, "error"),
    ],
)
def test_levels_are_small_words_of_which_there_are_four(number: int, level: str) -> None:
    assert read_line(line_of("x", levelno=number))["level"] == level


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("default/thumbs", "default/thumbs"),
        ("grüße", "grüße"),
        (25.5, "25.5"),
        (False, "false"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "no"', r'"say \"no\""'),
        ("C:\\new", r'"C:\\new"'),
        ("a\nb\r\tc", r'"a\nb\r\tc"'),
        ("\x00\x1b[31m\x7f", r'"\u0000\u001b[31m\u007f"'),
        ("\u2028\u202e\x85", r'"\u2028\u202e\u0085"'),
        ("no\u00a0break", r'"no\u00a0break"'),
        ("\U000e0001", r'"\udb40\udc01"'),
        (ConnectionError("no route"), '"no route"'),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_value_is_bare_if_that_is_clear_and_else_quoted(value: object, written: str) -> None:
    assert str(LogEvent("seen", it=value)) == f"event=seen it={written}"


@given(ANY_TEXT, ANY_TEXT)
@example(NASTY, "")
@example("", NASTY)
@example('"', "\\")
def test_every_text_is_read_back_as_it_was(one: str, other: str) -> None:
    line = line_of(LogEvent("seen", one=one, other=other))
    assert line.isprintable()
    fields = read_line(line)
    assert (fields["event"], fields["one"], fields["other"]) == ("seen", one, other)


@given(ANY_TEXT)
@example(NASTY)
@example("event=forged level=error")
def test_what_another_library_says_is_one_field_of_a_note(sentence: str) -> None:
    line = line_of(sentence, name="kopf.objects")
    fields = read_line(line)
    assert line.isprintable()
    assert {"logger": "kopf.objects", "event": "note", "msg": sentence}.items() <= fields.items()


def test_half_a_character_can_be_written() -> None:
    assert line_of(LogEvent("seen", it="a\udc80")).encode().endswith(rb'it="a\udc80"')


def test_a_sentence_gets_its_arguments() -> None:
    assert read_line(line_of("%s: failed %d times", "reap", 3))["msg"] == "reap: failed 3 times"


def test_arguments_that_do_not_fit_cost_no_line() -> None:
    assert read_line(line_of("%d times", "many"))["msg"] == "%d times"


def test_a_traceback_is_one_field_and_the_error_in_a_word_another() -> None:
    line = line_of(
        LogEvent("defect", queue="a/b"), **raised(KeyError("thumbs"), cause=ValueError("so\nthere"))
    )
    fields = read_line(line)
    assert list(fields)[3:] == ["event", "queue", "error", "traceback"]
    assert fields["error"] == "KeyError: 'thumbs'"
    assert fields["traceback"].startswith("ValueError: so\nthere\n")
    assert fields["traceback"].endswith("\nKeyError: 'thumbs'")
    assert line.isprintable()


def test_an_event_that_contains_its_error_keeps_its_words() -> None:
    fields = read_line(line_of(LogEvent("defect", error="mine"), **raised(KeyError("thumbs"))))
    assert fields["error"] == "mine"
    assert "KeyError" in fields["traceback"]


def test_without_quoting_an_error_shows_its_class_and_the_places_alone() -> None:
    error = raised(ValueError("canary"), cause=KeyError("canary"))
    for message in (LogEvent("defect"), "it failed"):
        line = line_of(message, quotes_errors=False, **error)
        fields = read_line(line)
        assert fields["error"] == "ValueError"
        assert fields["traceback"].endswith("\nValueError")
        assert "test_log_lines.py" in fields["traceback"]
        assert "canary" not in line


def test_a_record_without_an_error_has_no_field_for_one() -> None:
    fields = read_line(line_of("fine", exc_info=(None, None, None)))
    assert not {"error", "traceback", "stack"} & fields.keys()


def test_the_stack_of_a_record_is_one_field() -> None:
    assert read_line(line_of("here", stack_info="Stack:\n  one"))["stack"] == "Stack:\n  one"


def test_the_lines_in_the_documentation_are_of_the_form() -> None:
    section = (ROOT / "docs" / "troubleshooting.md").read_text().partition("\n## Log lines\n")[2]
    lines = read_log(section.partition("```text\n")[2].partition("```")[0])
    assert [line["event"] for line in lines] == ["leading", "store_unavailable"]
    assert all(f"| `{field}` |" in section for field in (*lines[0].keys() - {"identity"}, "traceback"))


PROGRAM = """
import logging, warnings
from claimq_process.log_lines import LogEvent, write_log
write_log({level!r}, quotes_errors={quotes}, quiet=("noisy",))
log, noisy = logging.getLogger("claimq.test"), logging.getLogger("noisy")
log.debug(LogEvent("detail")), log.info(LogEvent("began")), log.error(LogEvent("failed"))
noisy.debug("a"), noisy.info("b"), noisy.warning("c"), noisy.error("d")
warnings.warn("old\\nways", RuntimeWarning)
raise SystemError("canary\\nof two lines")
"""


def written_by(level: str, *, quotes_errors: bool = True) -> list[dict[str, str]]:
    program = PROGRAM.format(level=level, quotes=quotes_errors)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    return read_log(done.stderr)


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["detail", "began", "failed", "b", "c", "d", "RuntimeWarning", "defect"]),
        ("info", ["began", "failed", "c", "d", "RuntimeWarning", "defect"]),
        ("warn", ["failed", "c", "d", "RuntimeWarning", "defect"]),
        ("error", ["failed", "d", "defect"]),
    ],
)
def test_a_process_writes_lines_alone_warnings_and_its_own_end_too(level: str, heard: list[str]) -> None:
    lines = written_by(level)
    words = [line.get("msg", line["event"]) for line in lines]
    assert ["RuntimeWarning" if "RuntimeWarning: old\nways" in word else word for word in words] == heard
    assert lines[-1]["error"] == "SystemError: canary\nof two lines"
    assert 'File "<string>"' in lines[-1]["traceback"]


def test_the_end_of_a_process_is_reported_in_words_even_where_errors_are_not_quoted() -> None:
    last = written_by("info", quotes_errors=False)[-1]
    assert (last["event"], last["error"]) == ("defect", "SystemError: canary\nof two lines")
    assert last["traceback"].endswith("\nSystemError")


def test_ctrl_c_ends_a_process_as_it_always_does() -> None:
    program = PROGRAM.format(level="info", quotes=True).replace("SystemError(", "KeyboardInterrupt(")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "event=defect" not in done.stderr
    assert done.stderr.rstrip().splitlines()[-2:] == ["KeyboardInterrupt: canary", "of two lines"]
