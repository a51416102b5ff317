"""The operator and the sidecar log events, by names that can be searched for in the code, and nothing else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from claimq_process.log_lines import OWN_FIELDS
from testkit.repository.tree import parsed, shown, sources

METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
WORDS = re.compile(r"[a-z]+(_[a-z]+)*")


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))


def is_event(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LogEvent"


def is_log_call(call: ast.Call) -> bool:
    method = call.func
    return (
        isinstance(method, ast.Attribute)
        and method.attr in METHODS
        and isinstance(method.value, ast.Name)
        and method.value.id in ("log", "_log")
    )


def wrong(path: Path) -> Iterator[str]:
    """What is not as it should be in a file, with its line."""
    for call in calls(path):
        if is_log_call(call) and not is_event(call.args[0]):
            yield f"{call.lineno}: log a LogEvent, not a sentence"
        if is_event(call):
            named = [one.arg or "**" for one in call.keywords]
            yield from (f"{call.lineno}: no field {one}" for one in named if one in (*OWN_FIELDS, "**"))
            if isinstance(call.args[0], ast.Constant) and not WORDS.fullmatch(str(call.args[0].value)):
                yield f"{call.lineno}: name the event in small_words"
            if isinstance(call.args[0], ast.JoinedStr):
                yield f"{call.lineno}: write the event's name out, so that it can be searched for"


def test_a_log_call_names_its_event() -> None:
    assert [
        (shown(path), fault) for path in sources("operator", "worker_sidecar") for fault in wrong(path)
    ] == []


def test_the_calls_are_found_and_judged(tmp_path: Path) -> None:
    assert (
        sum(map(is_log_call, (c for path in sources("operator", "worker_sidecar") for c in calls(path)))) > 30
    )
    bad = tmp_path / "bad.py"
    bad.write_text(
        '_log.info("x")\n_log.info(LogEvent("Big", level=1))\n_log.error(LogEvent(f"a_{b}", **c))\n'
        '_log.info(LogEvent("good", queue="q"))\n'
    )
    assert [one.partition(":")[0] for one in wrong(bad)] == ["1", "2", "2", "3", "3"]
