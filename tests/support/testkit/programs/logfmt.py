"""Reads log lines back as strictly as logfmt's readers do, so that what passes here is read everywhere."""

import json
import re

PAIR = re.compile(
    r'(?P<key>[a-z][a-z0-9_]*)=(?:(?P<bare>[^\s"=\\]+)|(?P<quoted>"(?:[^"\\]|\\.)*"))(?: (?=.)|$)'
)


def read_line(line: str) -> dict[str, str]:
    """The fields of one line, in their order. ValueError for what is no logfmt, or has a field twice."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(line):
        pair = PAIR.match(line, at)
        if pair is None or pair["key"] in fields:
            raise ValueError(f"no new key=value at {at} of {line!r}")
        fields[pair["key"]] = pair["bare"] if pair["quoted"] is None else json.loads(pair["quoted"])
        at = pair.end()
    return fields


def read_log(text: str) -> list[dict[str, str]]:
    """All lines of a log; each has what every line must have."""
    lines = [read_line(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:4] == ["ts", "level", "logger", "event"], line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"]), line
        assert line["level"] in ("debug", "info", "warn", "error"), line
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", line["event"]), line
    return lines
