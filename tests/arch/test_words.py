"""One word for each thing, the glossary's, in the names of the library."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT, parsed, shown, sources

BANNED = {
    "job": "item",
    "jobs": "items",
    "ack": "done",
    "acked": "done",
    "nack": "fail",
    "pop": "claim",
    "dequeue": "claim",
    "acquire": "claim",
    "visibility": "lease",
    "heartbeat": "renew",
    "reject": "fail",
    "reschedule": "requeue",
    "dlq": "failed",
    "deadletter": "failed",
    "archive": "failed",
    "redrive": "requeue_failed",
    "purge": "drop or remove_failed",
    "backlog": "length of main",
    "stalled": "expired",
    "stuck": "expired",
    "orphan": "expired",
    "rescue": "reap",
    "quiesce": "drain",
}
"""A word that must not be part of a name, and the one to take."""
BANNED_FOR_APIS = {
    "task": "item",
    "tasks": "items",
    "messages": "items",
    "publish": "enqueue",
    "submit": "enqueue",
}
"""Besides, for functions and classes; what a variable holds may be asyncio's own."""
TASKS = ROOT / "core/src/claimq/tasks"
"""Here a task is a thing of its own: the function that an item calls."""


def test_the_library_says_item_claim_lease_and_their_like() -> None:
    assert {shown(path): wrong for path in sources("core") if (wrong := _wrong_names(path))} == {}


def _wrong_names(path: Path) -> dict[str, str]:
    banned_for_apis = {} if path.is_relative_to(TASKS) else BANNED_FOR_APIS
    apis = dict.fromkeys(_api_names(path), BANNED | banned_for_apis)
    others = dict.fromkeys(_variables(path), BANNED)
    return {
        name: f"{word}: say {banned[word]}"
        for name, banned in (others | apis).items()
        for word in _words(name)
        if word in banned
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("peekJob", ["peek", "job"]),
        ("_ack_all", ["ack", "all"]),
        ("HTTPJob2", ["http", "job"]),
        ("jobless", ["jobless"]),
    ],
)
def test_names_are_cut_into_words(name: str, words: list[str]) -> None:
    assert _words(name) == words


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _api_names(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _variables(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
