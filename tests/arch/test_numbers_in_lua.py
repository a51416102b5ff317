"""Scripts write each number as digits: what the server or Lua makes of a number has an exponent for some (1e+8, 1e+14).

Where a command takes a number (an index, a count, a score, a value of a hash), a script passes text.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from testkit.repository.tree import shown, tracked_files

LUA = [path for path in tracked_files() if path.suffix == ".lua"]
BETWEEN = {"LRANGE": (2, 3), "LTRIM": (2, 3), "ZRANGE": (2, 3), "ZRANGEBYSCORE": (2, 3), "ZCOUNT": (2, 3)}
NUMBERS = {**BETWEEN, "LINDEX": (2,), "LSET": (2,), "LREM": (2,), "HINCRBY": (3,), "PEXPIRE": (2,)}
"""The places of a command's words (the command is 0) that are numbers."""
DIGITS = re.compile(
    r"-?\d+|'[^']*'|(whole|fraction)\(.*\)|'\(' \.\. whole\(.*\)|-?[A-Z][A-Z_]+( [-+] \d+)?"  # whole(), constants
    r"|-?\(?#\w+( [-+] \d+)?\)?|to_nearer_end == at and -1 or 1"  # lengths of tables, which one call made
    r"|unpack\(.*|\.\.\.|.* \.\. .*|format\(.*|ARGV\[\d\]"  # lists of text, and text
)
TEXTS = {
    "changed", "cursor", "enqueued", "envelope", "found.counting", "found.next_cursor", "from", "nonce", "owner",
    "page[1]", "q.limits", "seq", "until_ms", "worker",
    "enqueued_at(oldest) or whole(q.now)", "enqueued_at(oldest_of(q, client)) or whole(q.now)",
}  # fmt: skip
"""Names that hold text: of the server, of an argument, or written as digits where they are set."""
TEXTS_OF = {
    "close.lua": {"text"},
    "costs.lua": {"text"},
    "delay.lua": {"score"},
    "explain.lua": {"at", "write_weights(q)"},
    "free_keys.lua": {"table.concat(live, ' ')"},
    "in_turns.lua": {"park.score(client)"},
    "key_field.lua": {"q.has_keys"},
    "key_rates.lua": {"place"},
    "keys.lua": {"to"},
    "order.lua": {"text"},
    "pause.lua": {"text"},
    "release.lua": {"place"},
    "repair.lua": {"has_more and last or '0'", "starts_at", "write_weights(q)"},
    "set_bound.lua": {"bound"},
    "slots.lua": {"q.stored_reserve"},
    "workers.lua": {"first", "last"},
}
JOINED = re.compile(
    r"\.\. *(?:#[\w.]+|q\.(?:now|seq|first|same)\b|skip\b|looked_at\b|looked\b|count\b|item\.(?:delay|size)\b)"
)
"""A number that is joined to a text as Lua prints it."""


def words_of(text: str, start: int) -> list[str]:
    """The arguments of a call whose bracket opens before `start`."""
    words, depth, quote, word = list[str](), 1, "", ""
    for letter in text[start:]:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if not depth or (depth == 1 and letter == "," and not quote):
            words.append(word.strip())
            word = ""
        else:
            word += letter
        if not depth:
            break
    return words


def places_of_numbers(words: list[str]) -> list[int]:
    command = words[0].strip("'")
    places = list(NUMBERS.get(command, ()))
    if command == "ZADD" and words[2] != "'XX'":
        places += range(2, len(words), 2)
    if command == "HSET":
        places += range(3, len(words), 2)
    for place, word in enumerate(words):
        places += {"'LIMIT'": [place + 1, place + 2], "'COUNT'": [place + 1]}.get(word, [])
    return [place for place in places if place < len(words)]


def code_of(path: Path) -> str:
    return re.sub(r"--[^\n]*", "", path.read_text())


def other_numbers(path: Path) -> Iterator[str]:
    """The words of commands that are numbers and not written as digits."""
    text = code_of(path)
    for call in re.finditer(r"redis\.p?call\(", text):
        words = words_of(text, call.end())
        for place in places_of_numbers(words):
            word = words[place]
            if not DIGITS.fullmatch(word) and word not in TEXTS | TEXTS_OF.get(path.name, set()):
                yield f"{shown(path)}: {words[0]}: write whole({word})"


def test_a_command_gets_its_numbers_as_digits() -> None:
    assert [problem for path in LUA for problem in other_numbers(path)] == []


def test_a_number_is_joined_to_a_text_as_digits() -> None:
    lines = [(shown(path), line) for path in LUA for line in code_of(path).splitlines()]
    assert [line for line in lines if JOINED.search(line[1]) and "error({" not in line[1]] == []
