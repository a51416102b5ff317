"""The record q of the Lua scripts: lib/queue.lua lists each of its fields, and the files that set it later."""

import re
from collections.abc import Mapping

from testkit.repository.lua import code_of
from testkit.repository.tree import ROOT

LUA = ROOT / "core/src/claimq/redis_store/lua"
FILES = {
    path.relative_to(LUA).with_suffix("").as_posix(): path.read_text() for path in sorted(LUA.rglob("*.lua"))
}
FIELD = r"(?<![\w.])(?:q|queue|group\.queue|queues\[1\])\.(\w+)"
TARGETS = re.compile(r"(?:^|;|\b(?:then|else|do))\s*((?:[\w.\[\]]+, )*[\w.\[\]]+) = ", re.MULTILINE)


def declared() -> tuple[set[str], dict[str, set[str]]]:
    """The fields that new_queue() sets, and those that others set as they go, with their files."""
    table = FILES["lib/queue"].partition("\n  return {\n")[2].partition("\n  }\n")[0]
    later = dict[str, set[str]]()
    for line in re.finditer(r"^    -- ([a-z_, ]+): .* \(([\w/, ]+)\)$", table, re.MULTILINE):
        for name in line[1].split(", "):
            assert name not in later, f"{name} is listed twice"
            later[name] = set(line[2].split(", "))
    return set(re.findall(r"^    (\w+) = ", table, re.MULTILINE)), later


def fields_set(files: Mapping[str, str]) -> dict[str, set[str]]:
    """Field -> the files that assign it."""
    places = dict[str, set[str]]()
    for name, text in files.items():
        for targets in TARGETS.finditer(code_of(text)):
            for target in targets[1].split(", "):
                if field := re.fullmatch(FIELD, target):
                    places.setdefault(field[1], set()).add(name)
    return places


def fields_named(files: Mapping[str, str]) -> set[str]:
    return {field for text in files.values() for field in re.findall(FIELD, code_of(text))}


def test_the_scripts_name_the_fields_that_are_declared_and_no_others() -> None:
    at_first, later = declared()
    assert fields_named(FILES) == at_first | later.keys()
    assert at_first.isdisjoint(later)
    assert len(at_first) > 20
    assert len(later) > 40


def test_a_field_that_is_set_later_is_set_by_the_files_that_its_line_lists() -> None:
    at_first, later = declared()
    assert {field: files for field, files in fields_set(FILES).items() if field not in at_first} == later


def test_a_field_that_is_not_declared_is_found() -> None:
    text = {"x": "if a then q.one, q.two = 1, 2 end\n  queue.three = q.four == 5\nlocal b = q.five"}
    assert fields_named(text) == {"one", "two", "three", "four", "five"}
    assert fields_set(text) == {"one": {"x"}, "two": {"x"}, "three": {"x"}}
