"""Scripts are put together from their parts: what they reach, and what they may write with."""

import re
from importlib.resources import files

import pytest

from claimq.redis_store.scripts import READS, script, writes_of

NAMES = sorted(
    path.name.removesuffix(".lua")
    for path in (files("claimq.redis_store") / "lua").iterdir()
    if path.name != "lib"
)


def _listed(name: str) -> list[str]:
    """The commands that a script asks for permission to run."""
    _, _, opened = script(name).text.partition("\nlocal function open(")
    return re.findall(r"check_permission\(base, '([A-Z]+)'", opened.partition("\nend\n")[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_script_asks_for_each_command_that_it_writes_with(name: str) -> None:
    shebang, _, body = script(name).text.partition("\n")
    assert _listed(name) == writes_of(body)
    assert READS.isdisjoint(_listed(name))
    assert ("no-writes" in shebang) == (_listed(name) == []) or name == "trial"


def test_a_fast_path_asks_for_its_rights_and_makes_no_function() -> None:
    first, _, rest = script("enqueue").text.partition("until true\n")
    asked = re.findall(r"redis\.acl_check_cmd\('([A-Z]+)', base", first)
    assert sorted(asked) == writes_of(first) != []
    assert "function" not in first.replace("no functions", "")
    assert "check_permission" not in first
    assert "local function open(" in rest


def test_a_script_has_no_function_that_it_does_not_reach() -> None:
    assert "local function head(" not in script("enqueue").text  # and so a producer needs no RPUSH
    assert "local function tail(" in script("enqueue").text
    assert "RPUSH" not in _listed("enqueue")
    assert "local function give_back(" in script("give_back").text


def test_what_only_a_function_on_demand_calls_is_made_inside_of_it() -> None:
    text = script("claim").text
    before, _, adopt = text.partition("local function adopt(")
    assert "local function read_header(" not in before
    assert "local NUMBERS = " not in before
    assert adopt.index("local function read_header(") < adopt.index("q.adopted = q.adopted or 0")


def test_a_queue_has_only_the_entries_that_the_script_uses() -> None:
    assert " leases = base .. 'leases'," in script("done").text
    assert "failed_items" not in script("done").text
    assert " done = tonumber(" in script("done").text
    assert " claimed = tonumber(" not in script("done").text
    assert " claimed = tonumber(" in script("claim").text


def read_fields(name: str) -> list[str]:
    """The fields of stats that a script reads when it opens a queue."""
    found = re.search(r"redis\.call\('HMGET', base \.\. 'stats', (.*)\)\n", script(name).text)
    return [] if found is None else [word.strip("'") for word in found[1].split(", ")]


def test_only_the_fields_of_stats_that_the_script_names_are_read() -> None:
    assert read_fields("done") == ["seq", "clock_offset", "seen_at", "largest", "done", "server"]
    assert {"grace_until", "incarnation", "number", "levels"} < set(read_fields("claim"))
    text = script("done").text
    assert "done = tonumber(seen[5])" in text, "the fifth of them"
    assert "seen.server" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_found_by_its_place(name: str) -> None:
    code = re.sub(r"--[^\n]*", "", script(name).text)
    places = {int(place) for place in re.findall(r"\bseen\[(\d+)\]", code)}
    assert places == set(range(1, len(read_fields(name)) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_words_stand_in_place_of_their_names(name: str) -> None:
    code = re.sub(r"--[^\n]*|'[^'\n]*'", "", script(name).text)
    names = set(re.findall(r"(?<![.\w])[A-Z][A-Z_]+\b", code)) - {"KEYS", "ARGV"}
    assert all(f"local {one}" in code for one in names), "what is left is a table"
    assert not re.search(r"^ *local [A-Z_]+ = [-\d.e]+$", code, re.MULTILINE)


def test_a_command_that_is_not_known_counts_as_a_write() -> None:
    assert writes_of("redis.call('HGET', a) redis.pcall('SMOVE', b)") == ["SMOVE"]
