"""Each question whether the user may run a command is asked with words that the command takes.

Redis from 8.6 on checks their number. Other servers do not, so the test compares it with the server's own table of
commands.
"""

from __future__ import annotations

import re

import pytest

from claimq.redis_store.scripts import script
from testkit.repository.lua import NAMES, code_of, declared_writes
from testkit.servers.server import Server

KEY = "cq:{q}:"
PROBE = re.compile(r"\b(?:acl_check_cmd|check_permission)\((?P<words>[^()]*)\)")
DEFINITIONS = {"base, command, ...", "command, base, ...", "base, commands[i], base, base"}
"""The words of the probes that check_permission() and check_writes() make of what their callers name."""
LISTED = re.compile(r"\{(?P<words>'[A-Z]{3,}'(?:, (?:base|'[^']*'))*)\}")
"""A probe of trial.lua, which lists them."""
OF_QUEUES = [name for name in NAMES if name != "may_list"]
"""That one asks about the list of queues, which is no key of its queue."""
KEYLESS = {"PUBSUB", "TIME", "WAIT", "WAITAOF"}


def probes(name: str) -> set[tuple[str, ...]]:
    """The commands with their words that a script asks about, as the server gets them."""
    text = code_of(script(name).text)
    writes = re.findall(r"'([A-Z]+)'", text.partition("for _, write in")[2].partition(" do ")[0])
    asked: set[tuple[str, ...]] = {
        (command, KEY, KEY, KEY) for command in (writes if name == "trial" else declared_writes(name))
    }
    for found in [*PROBE.finditer(text), *(LISTED.finditer(text) if name == "trial" else ())]:
        if found["words"] in DEFINITIONS:
            continue
        words = found["words"].split(", ")
        if words[0] in ("base", "q.base"):
            words = [words[1], words[0], *words[2:]]
        asked.add(tuple(KEY if word in ("base", "q.base") else _literal(word) for word in words))
    return asked


def _literal(word: str) -> str:
    assert re.fullmatch("'[^']*'", word), f"a probe has literal words, not {word}"
    return word.strip("'")


def takes(server: Server, words: tuple[str, ...]) -> bool:
    """Whether the command takes so many words, by the server's table: exactly its arity, or at least that."""
    table = server.call("COMMAND", "INFO", words[0])
    assert isinstance(table, list)
    if table[0] is None:
        return words[0] == "WAITAOF" and server.version < (7, 2)
    assert isinstance(table[0], list)
    arity = table[0][1]
    assert isinstance(arity, int)
    return len(words) == arity or (arity < 0 and len(words) >= -arity)


@pytest.mark.parametrize("name", OF_QUEUES)
def test_each_probe_has_as_many_words_as_its_command_takes(server: Server, name: str) -> None:
    asked = probes(name)
    assert [words for words in sorted(asked) if not takes(server, words)] == []
    assert bool(asked) == script(name).writes


@pytest.mark.parametrize("name", OF_QUEUES)
def test_each_probe_names_the_keys_of_the_queue_and_no_others(server: Server, name: str) -> None:
    for words in probes(name):
        if words[0] not in KEYLESS:
            keys = server.call("COMMAND", "GETKEYS", *words)
            assert isinstance(keys, list)
            assert keys == [KEY.encode()] * len(keys) != [], words


def test_the_trial_tries_every_command_that_another_script_calls() -> None:
    called = {word for name in NAMES for word in re.findall(r"redis\.p?call\('([A-Z]+)'", script(name).text)}
    assert {words[0] for words in probes("trial")} == called


def test_the_trial_asks_in_the_words_of_the_other_scripts() -> None:
    asked = {words for name in OF_QUEUES if name != "trial" for words in probes(name)}
    tried = {words[0]: words for words in probes("trial")}
    assert {words for words in asked if words[0] in tried} <= set(tried.values())
