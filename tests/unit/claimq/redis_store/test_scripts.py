"""Scripts are put together from their parts: what they reach, and what they may write with."""

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
    _, listed, _ = script(name).text.split("\n", 2)
    return [word.strip("'") for word in listed.partition("{")[2].rstrip("}").split(", ") if word]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_asks_for_each_command_that_it_writes_with(name: str) -> None:
    shebang, _, body = script(name).text.split("\n", 2)
    assert _listed(name) == writes_of(body)
    assert READS.isdisjoint(_listed(name))
    assert ("no-writes" in shebang) == (_listed(name) == [])


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


def test_a_queue_has_only_the_keys_that_the_script_uses() -> None:
    assert " leases = base .. 'leases'," in script("done").text
    assert "failed_items" not in script("done").text


def test_a_command_that_is_not_known_counts_as_a_write() -> None:
    assert writes_of("redis.call('HGET', a) redis.pcall('SMOVE', b)") == ["SMOVE"]
