"""Every Lua file says what it is for, what it touches, what it takes, what it answers and what it costs."""

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", SCRIPTS, ids=shown)
def test_a_script_says_all_that_a_caller_must_know(path: Path) -> None:
    header = _header(path)
    assert [
        word for word in PARTS_OF_A_HEADER if not any(re.match(rf"-- {word}: \S", line) for line in header)
    ] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=shown)
def test_a_script_says_whether_it_may_run_out_of_memory(path: Path) -> None:
    assert re.match(r"#!lua( name=\w+)?( flags=[a-z,-]+)?\n", path.read_text())


@pytest.mark.parametrize("path", PARTS, ids=shown)
def test_a_part_of_scripts_says_what_it_is_for(path: Path) -> None:
    assert any(re.match(r"-- (Purpose: )?\w+", line) for line in _header(path))


@pytest.mark.parametrize("path", LUA, ids=shown)
def test_no_script_searches_all_keys_or_asks_another_clock(path: Path) -> None:
    text = path.read_text()
    found = re.findall(r"'(?:KEYS|SCAN|RANDOMKEY)'|\bos\.(?:time|clock)\b", text)
    assert found == []


@pytest.mark.parametrize("path", LUA, ids=shown)
def test_all_lua_belongs_to_the_one_home_of_redis(path: Path) -> None:
    assert path.is_relative_to(ROOT / "core/src/claimq/redis_store")


@pytest.mark.parametrize("path", LUA, ids=shown)
def test_a_script_names_each_command_that_it_runs_as_a_literal(path: Path) -> None:
    """What a script writes with is read from its text, and asked for before it writes."""
    assert (
        re.findall(
            r"redis\.p?call(?!\('[A-Z]+')|\bredis\.(?!p?call\b|acl_check_cmd\b|error_reply\b|REDIS_VERSION_NUM\b)\w+",
            path.read_text(),
        )
        == []
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=shown)
def test_a_script_opens_its_queue_before_anything_else(path: Path) -> None:
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("--"))
    assert -1 < text.find("open(") < text.find("redis.call(") or "redis.call(" not in text


@pytest.mark.parametrize("path", LUA, ids=shown)
def test_a_line_of_a_script_has_at_most_110_characters(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if len(line) > 110] == []
