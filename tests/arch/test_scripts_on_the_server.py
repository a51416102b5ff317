"""Every Lua file says what it is for, what it touches, what it takes, what it answers and what it costs."""

import re
from pathlib import Path

from testkit.repository.tree import ROOT, shown, tracked_files

LUA = [path for path in tracked_files() if path.suffix == ".lua"]
SCRIPTS = [path for path in LUA if path.parent.name == "lua"]
PARTS = [path for path in LUA if path.parent.name != "lua"]
PARTS_OF_A_HEADER = ("Purpose", "KEYS", "ARGV", "Replies", "Cost")


def _header(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    body = lines[1:] if lines and lines[0].startswith("#!") else lines
    end = next((index for index, line in enumerate(body) if not line.startswith("--")), len(body))
    return body[:end]


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 5


def test_a_script_says_all_that_a_caller_must_know() -> None:
    assert [
        (shown(path), word)
        for path in SCRIPTS
        for word in PARTS_OF_A_HEADER
        if not any(re.match(rf"-- {word}: \S", line) for line in _header(path))
    ] == []


def test_a_script_says_whether_it_may_run_out_of_memory() -> None:
    first_line = re.compile(r"#!lua( name=\w+)?( flags=[a-z,-]+)?\n")
    assert [shown(path) for path in SCRIPTS if not first_line.match(path.read_text())] == []


def test_a_part_of_scripts_says_what_it_is_for() -> None:
    purpose = re.compile(r"-- (Purpose: )?\w+")
    assert [shown(path) for path in PARTS if not any(map(purpose.match, _header(path)))] == []


def test_no_script_searches_all_keys_or_asks_another_clock() -> None:
    assert _matches(r"'(?:KEYS|SCAN|RANDOMKEY)'|\bos\.(?:time|clock)\b") == []


def test_all_lua_belongs_to_the_one_home_of_redis() -> None:
    home = ROOT / "core/src/claimq/redis_store"
    assert [shown(path) for path in LUA if not path.is_relative_to(home)] == []


def test_a_script_names_each_command_that_it_runs_as_a_literal() -> None:
    """What a script writes with is read from its text, and asked for before it writes."""
    other_call = r"redis\.p?call(?!\('[A-Z]+')"
    other_name = r"\bredis\.(?!p?call\b|acl_check_cmd\b|error_reply\b|REDIS_VERSION_NUM\b)\w+"
    assert _matches(f"{other_call}|{other_name}") == []


def test_a_script_that_writes_opens_its_queue_before_anything_else() -> None:
    writing = [path for path in SCRIPTS if "no-writes" not in path.read_text().partition("\n")[0]]
    assert len(writing) > 5
    assert [shown(path) for path in writing if not _opens_its_queue_first(path)] == []


def test_a_line_of_a_script_has_at_most_110_characters() -> None:
    assert _matches(".{111,}") == []


def _matches(pattern: str) -> list[tuple[str, str]]:
    return [(shown(path), match) for path in LUA for match in re.findall(pattern, path.read_text())]


def _opens_its_queue_first(path: Path) -> bool:
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
    return -1 < text.find("open(") < text.find("redis.call(") or "redis.call(" not in text
