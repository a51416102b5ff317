"""Scripts are the text of their file with the parts that it includes."""

import re
from collections import Counter
from pathlib import Path

import pytest

from claimq.redis_store.scripts import script
from testkit.repository.lua import NAMES, READS, code_of, declared_writes, writes_of
from testkit.repository.tree import ROOT, shown

LUA = ROOT / "core/src/claimq/redis_store/lua"
PARTS = sorted((LUA / "lib").glob("*.lua"))
DEFINITION = re.compile(r"^local (?:function (\w+)|([\w, ]+?)(?: =.*)?$)", re.MULTILINE)
INCLUDE = re.compile(r"^( *)-- include (.+)$", re.MULTILINE)
LAST_FUNCTION = re.compile(
    r"^local function (\w+)\(\)\n((?:(?:  .*)?\n)+)end\nreturn \1\(\)\n\Z", re.MULTILINE
)


def definitions(text: str) -> list[str]:
    """The names that the lines of a text define outside of functions."""
    return [name for found in DEFINITION.finditer(text) for name in (found[1] or found[2]).split(", ")]


def own_text(name: str) -> str:
    """The text of a script. The body of a function that ends the script counts as text outside of functions."""
    text = (LUA / f"{name}.lua").read_text()
    if (found := LAST_FUNCTION.search(text)) is None:
        return text
    return text[: found.start()] + re.sub("(?m)^  ", "", found[2])


def includes_of(text: str, *, inner: bool = False) -> list[str]:
    """The parts that a text includes outside of blocks, or inside of them."""
    return [part for line in INCLUDE.finditer(text) if bool(line[1]) == inner for part in line[2].split()]


def part(name: str) -> str:
    return (LUA / "lib" / f"{name}.lua").read_text()


def with_inner(text: str) -> str:
    """The text, and that of the parts that it includes inside of blocks."""
    return "".join([text, *(with_inner(part(item)) for item in includes_of(text, inner=True))])


def test_an_include_stands_for_the_text_of_its_parts() -> None:
    lines = own_text("withdraw").splitlines(keepends=True)
    assert "-- include limits numbers clock queue call\n" in lines
    at = lines.index("-- include limits numbers clock queue call\n")
    lines[at] = "".join(map(part, ("limits", "numbers", "clock", "queue", "call")))
    assert script("withdraw").text == "".join(lines)


def test_an_include_in_a_function_stands_there_too() -> None:
    before, _, body = script("claim").text.partition("local function adopt(q, got, kept, also_late)\n")
    assert body.startswith(part("envelope") + part("place_of") + part("keys") + part("hold"))
    assert "local function read_header(" not in before


@pytest.mark.parametrize("name", [name for name in NAMES if name != "may_list"])
def test_a_script_checks_the_permission_for_each_command_it_writes_with(name: str) -> None:
    shebang, _, body = script(name).text.partition("\n")
    assert declared_writes(name) == writes_of(body)
    assert READS.isdisjoint(declared_writes(name))
    assert ("no-writes" in shebang) == (declared_writes(name) == []) or name == "trial"


def test_a_fast_path_checks_its_permissions_and_makes_no_function() -> None:
    first, _, rest = script("enqueue").text.partition("until true\n")
    asked = re.findall(r"redis\.acl_check_cmd\('([A-Z]+)', base", first)
    assert sorted(asked) == writes_of(first) != []
    assert "function" not in first.replace("no functions", "")
    assert "check_permission" not in first
    assert "local function open(" in rest


def test_a_producer_needs_no_permission_for_what_only_workers_do() -> None:
    assert "RPUSH" not in declared_writes("enqueue")
    assert "RPUSH" in declared_writes("give_back")


@pytest.mark.parametrize("name", NAMES)
def test_a_script_includes_each_part_once_and_uses_it(name: str) -> None:
    text = own_text(name)
    included = includes_of(text)
    assert [item for item, count in Counter(included).items() if count > 1] == []
    rest = {item: code_of(with_inner(part(item))) for item in included}
    unused = [
        item
        for item in included
        if item != "fast_enqueue"
        and not any(
            re.search(
                rf"(?<![.\w]){defined}\b",
                code_of(text) + "".join(rest[other] for other in rest if other != item),
            )
            for defined in definitions(part(item))
        )
    ]
    assert unused == []


@pytest.mark.parametrize("path", PARTS, ids=shown)
def test_a_part_includes_others_only_inside_of_functions(path: Path) -> None:
    assert includes_of(path.read_text()) == []
    assert [line[0] for line in INCLUDE.finditer(path.read_text()) if not line[1].startswith("  ")] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_defined_twice_in_one_place(name: str) -> None:
    defined = Counter(definitions(own_text(name)))
    for item in includes_of(own_text(name)):
        defined.update(definitions(part(item)))
    assert [item for item, count in defined.items() if count > 1] == []


KEYWORDS: set[str] = {
    "and",
    "break",
    "do",
    "else",
    "elseif",
    "end",
    "false",
    "for",
    "function",
    "if",
    "in",
    "local",
    "nil",
    "not",
    "or",
    "repeat",
    "return",
    "then",
    "true",
    "until",
    "while",
}
OF_THE_SERVER: set[str] = {
    "ARGV",
    "KEYS",
    "cjson",
    "error",
    "ipairs",
    "math",
    "next",
    "pairs",
    "pcall",
    "redis",
    "select",
    "string",
    "struct",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
}
NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*\b(?! *=[^=])")
LOCAL = re.compile(
    r"\blocal (?!function)([\w,\s]+?)(?= =|\n\s*\w+ |$)|\bfunction(?: (\w+))?\(([\w, ]*)|\bfor ([\w, ]+) (?:in|=)"
)


def unknown_names(name: str) -> set[str]:
    """Names that are not defined where a script uses them. The server refuses them when a call gets there."""
    known, unknown = set[str](KEYWORDS | OF_THE_SERVER), set[str]()
    text = "".join([*(part(item) for item in includes_of(own_text(name))), own_text(name)])
    for block in re.split(r"(?m)^(?=local function |-- )", text):
        code = re.sub(r"(?m)^#!.*|--[^\n]*|'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\"", "''", with_inner(block))
        own = {
            word
            for found in LOCAL.finditer(code)
            for words in found.groups()
            if words
            for word in re.findall(r"\w+", words)
        }
        unknown |= {word for word in NAME.findall(code) if not word.isdigit()} - known - own
        known.update(definitions(block))
    return unknown


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_defined_before_it_is_used(name: str) -> None:
    assert unknown_names(name) == set()


def test_every_part_is_included() -> None:
    texts = [path.read_text() for path in LUA.rglob("*.lua")]
    included = {item for text in texts for inner in (False, True) for item in includes_of(text, inner=inner)}
    assert included == {path.stem for path in PARTS}


def test_a_command_that_is_not_known_counts_as_a_write() -> None:
    assert writes_of("redis.call('HGET', a) redis.pcall('SMOVE', b)") == ["SMOVE"]
