"""A loop of calls whose end the server decides goes through the bounded reader (docs/decisions/bounded-calls.md)."""

import ast

import pytest

from testkit.tree import ROOT

CALLS = {
    "run",
    "read",
    "command",
    "retry",
    "_read",
    "_run",
    "_run_counted",
    "run_durably",
    "_call_claim",
    "_end_and_claim",
}
"""What makes one call of the server."""
FOLDERS = ("core/src/claimq/queue", "core/src/claimq/redis_store", "core/src/claimq")
ENDS_BY_ITSELF = {
    "core/src/claimq/redis_store/presence.py": "one announcement for each lost connection, with a pause",
    "core/src/claimq/redis_store/connection.py": "retry() itself, which ends by its deadline",
}


def unbounded(text: str) -> list[int]:
    """The lines of calls in such loops that are no argument of ``reply`` of a bounded read."""
    found: list[int] = []
    for loop in ast.walk(ast.parse(text)):
        if isinstance(loop, ast.While):
            bodies = [loop.test, *loop.body]
        elif isinstance(loop, ast.For) and "count" in ast.unparse(loop.iter):
            bodies = [*loop.body]
        else:
            continue
        nodes = [node for body in bodies for node in ast.walk(body)]
        bounded = {
            id(inner)
            for node in nodes
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "reply"
            for argument in node.args
            for inner in ast.walk(argument)
        }
        found += [
            node.lineno
            for node in nodes
            if isinstance(node, ast.Await)
            and isinstance(node.value, ast.Call)
            and getattr(node.value.func, "attr", getattr(node.value.func, "id", "")) in CALLS
            and id(node.value) not in bounded
        ]
    return sorted(set(found))


def test_every_loop_of_calls_is_bounded() -> None:
    files = {path for folder in FOLDERS for path in (ROOT / folder).glob("*.py")}
    found = {str(path.relative_to(ROOT)): unbounded(path.read_text()) for path in files}
    assert {name: lines for name, lines in found.items() if lines and name not in ENDS_BY_ITSELF} == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("async def f(self):\n  while True:\n    x = await self._connection.run('workers')", [3]),
        ("async def f(self):\n  for skip in itertools.count():\n    x = await self._read('LRANGE')", [3]),
        ("async def f(self):\n  while page := await c.command('ZRANGE'):\n    pass", [2]),
        ("async def f(self):\n  while True:\n    x = await read.reply(self._connection.run('workers'))", []),
        ("async def f(self):\n  for key in keys:\n    x = await self._read('TYPE', key)", []),
    ],
)
def test_a_loop_without_the_bounded_reader_is_found(text: str, lines: list[int]) -> None:
    assert unbounded(text) == lines
