"""The Lua scripts: one file per transition in ``lua/``, combined with the library parts that its ``use:`` line names.

Of each part (``lua/lib/``) only the functions that the script calls are included. Each definition costs time in every
call, so functions that are called only by a function with ``-- On demand: `` in its comment are defined inside that
function. A script is called by the hash of its text, so two releases with different scripts can share one server.

The part that a ``fast:`` line names comes before all definitions, so that the most common call makes none of them; it
leaves all other calls to the rest (docs/decisions/scripts.md).

The writing commands are found in the text; ``open()`` checks the permission for each of them before the script writes
anything, and a fast path checks its own (docs/decisions/permissions.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Arg = str | bytes | int | float
"""An argument of a script or command."""
Call = tuple[str, int, int]
"""Identity of a mutating call: (instance, lane, number). The server runs it once, however often it is sent."""

READS = frozenset({
    "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "LINDEX", "LLEN", "LRANGE", "PUBSUB",
    "TIME", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCAN", "ZSCORE",
})  # fmt: skip
"""Commands that only read. A script runs them before its first write."""

_WORDS_AFTER_KEY = {
    "DEL": 0, "HDEL": 1, "HINCRBY": 2, "HSET": 2, "LPUSH": 1, "LREM": 2, "LSET": 2, "LTRIM": 2, "PEXPIRE": 1,
    "RPOP": 0, "RPUSH": 1, "UNLINK": 0, "ZADD": 2, "ZREM": 1,
}  # fmt: skip
"""Writing command -> the fewest words that it needs after its key. A permission is asked for with so many."""

_COMMAND = re.compile(r"redis\.p?call\('([A-Z]+)'")
_DEFINITION = re.compile(
    r"^(?:--[^\n]*\n)*local (?:([A-Z][A-Z_, ]*) = [^\n]*\n"
    r"|function (\w+)\((?:[^\n]* end\n|[^\n]*\n(?:(?!end\n)[^\n]*\n)*end\n))",
    re.MULTILINE,
)
_NEW_QUEUE = re.compile(r"^local function new_queue\(.*?^end\n", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^ {4,6}(\w+) = [^\n]*,(?: *--[^\n]*)?\n", re.MULTILINE)
_NAMED = re.compile(r"\.(\w+)|[{,] ?(\w+) = ")
_CONSTANTS = re.compile(r"^ *local ([A-Z][A-Z_, ]*) = ([^\n]*)\n", re.MULTILINE)
_LITERAL = re.compile(r"-?[\d.e]+|'[^'\n]*'")
_SEEN = re.compile(r"\bseen\.([a-z_]+)")
_ON_DEMAND = "-- On demand: "
_NO_CODE = re.compile(r"--[^\n]*|'[^'\n]*'")
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_WORD = re.compile(rf"{_NO_CODE.pattern}|{_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text and its hash for EVALSHA. ``writes`` is False for a script that a replica may run."""

    name: str
    text: str
    sha: str
    writes: bool


@cache
def script(name: str) -> Script:
    """The script of that name, with the library parts that it uses; composed and hashed once."""
    folder = files("claimq.redis_store") / "lua"
    shebang, _, body = (folder / f"{name}.lua").read_text("ascii").partition("\n")

    def parts_of(header: str) -> list[str]:
        line = next((line for line in body.splitlines() if line.startswith(f"-- {header}: ")), "")
        return [(folder / "lib" / f"{name}.lua").read_text("ascii") for name in line.split()[2:]]

    fast = parts_of("fast")
    body = "\n".join([*fast, *_reached(parts_of("use"), "".join([*fast, body])), body])
    body = _with_read_fields(_with_used_entries(_with_literals(body)))
    probes = " ".join(_probe_of(command) for command in writes_of(body))
    text = f"{shebang}\n{body.replace('check_permission(base, PROBES_OF_WRITES)', probes)}"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, writes="no-writes" not in shebang)


def writes_of(text: str) -> list[str]:
    """The writing commands in a script's text, sorted."""
    return sorted(set(_COMMAND.findall(text)) - READS)


def _probe_of(command: str) -> str:
    words = ", '0'" * _WORDS_AFTER_KEY[command]
    return f"check_permission(base, '{command}'{words})"


def _with_literals(text: str) -> str:
    """The text with constants replaced by their values. A name would be a variable that each call makes, and that each
    function which uses it has to find."""
    literals: dict[str, str] = {}

    def noted(found: re.Match[str]) -> str:
        names, values = found[1].split(", "), found[2].partition("  --")[0].split(", ")
        values = [literals.get(value, value) for value in values]
        if len(names) != len(values) or not all(map(_LITERAL.fullmatch, values)):
            return found[0]
        literals.update(zip(names, values, strict=True))
        return ""

    text = _CONSTANTS.sub(noted, text)
    return _WORD.sub(lambda word: literals.get(word[0], word[0]), text)


def _with_used_entries(text: str) -> str:
    """The text without the entries of a queue's table that it names nowhere else."""
    rest = _NO_CODE.sub("", _NEW_QUEUE.sub("", text))
    used = {name for names in _NAMED.findall(rest) for name in names}
    return _NEW_QUEUE.sub(
        lambda table: _ENTRY.sub(lambda entry: entry[0] if entry[1] in used else "", table[0]), text
    )


def _with_read_fields(text: str) -> str:
    """The text that reads only the fields of stats that it names, as ``seen.NAME``, and finds them by their places."""
    read = dict.fromkeys(_SEEN.findall(_NO_CODE.sub("", text)))
    places = {name: place for place, name in enumerate(read, 1)}
    text = text.replace("SEEN_FIELDS", ", ".join(f"'{name}'" for name in places))
    return _SEEN.sub(lambda found: f"seen[{places[found[1]]}]" if found[1] in places else found[0], text)


def _reached(parts: Iterable[str], body: str) -> Iterator[str]:
    """The parts without what the body does not reach, and with what is made on demand in its place."""
    listed = list(parts)
    definitions = {found[1] or found[2]: found[0] for part in listed for found in _DEFINITION.finditer(part)}
    owner = {name: names for names in definitions for name in names.split(", ")}

    def used(text: str) -> set[str]:
        return {owner[name] for name in _names_in(text) & owner.keys()}

    uses = {names: used(text) for names, text in definitions.items()}
    on_demand = {names for names, text in definitions.items() if _ON_DEMAND in text}
    rest = "".join(_DEFINITION.sub("", part) for part in listed)
    calls = {names: set[str]() if names in on_demand else uses[names] for names in uses}
    always = _closure(used(rest + body), calls)
    calls = {names: set[str]() if names in always else uses[names] for names in uses}

    def placed(found: re.Match[str]) -> str:
        names = found[1] or found[2]
        if names not in always:
            return ""
        if names not in on_demand:
            return found[0]
        own = _closure(uses[names], calls) - always
        before, begin, rest = found[0].partition(f"local function {names}(")
        arguments, newline, rest = rest.partition("\n")
        return "".join(
            [before, begin, arguments, newline, *(definitions[one] for one in uses if one in own), rest]
        )

    for part in listed:
        yield _DEFINITION.sub(placed, part)


def _closure(first: Iterable[str], calls: Mapping[str, set[str]]) -> set[str]:
    """The first ones, all that they call, and so on."""
    reached, new = set[str](), set(first)
    while new:
        reached |= new
        new = set[str]().union(*(calls[name] for name in new)) - reached
    return reached


def _names_in(text: str) -> set[str]:
    return set(_NAME.findall(_NO_CODE.sub("", text)))
