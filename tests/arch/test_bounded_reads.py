"""A loop of calls whose end the server decides goes through the bounded reader (docs/decisions/bounded-calls.md)."""

import ast
import inspect

import pytest

import claimq
from claimq.internals.operations import Internals
from testkit.repository.tree import ROOT

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


PROGRAMS = ("admin", "cli", "web", "local", "operator", "worker_sidecar")
READS = {
    *(
        name
        for kind in (claimq.ReliableQueue, claimq.Server, Internals)
        for name, _ in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_")
        and name not in {"close", "done", "unclaim", "enqueue_many", "known_ids", "remove_failed_item"}
    ),
    "page_of",
    "items_within_bytes",
    "first_matching",
    "_read",
    "read_once",
    "page",
    "get",
}
"""What a program calls to read from a queue's server, a page or the source of an import; not what it does with
entries that it has read."""
GOES_ON = {
    "cli/src/claimq_cli/commands/moving/bulk_load.py": "enqueues each portion of what the user gave",
    "cli/src/claimq_cli/commands/reading/top.py": "shows the state of each queue once in an interval",
    "local/src/claimq_local/embedded_valkey.py": "waits for the program's own server, with a time limit",
}


def unbounded_in_program(text: str) -> list[int]:
    """The lines of such calls in loops that are in no ``with`` block of a bounded read."""
    found: set[int] = set()

    def visit(node: ast.AST, *, loops: bool, bounded: bool) -> None:
        if isinstance(node, ast.While | ast.AsyncFor) or (
            isinstance(node, ast.For) and "count(" in ast.unparse(node.iter)
        ):
            loops = True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            loops = bounded = False
        if isinstance(node, ast.With):
            names = " ".join(ast.unparse(item.context_expr) for item in node.items)
            bounded = bounded or names.startswith(
                ("reads", "self.reads", "reading(", "walking(", "BoundedRead(")
            )
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            called = getattr(node.value.func, "attr", getattr(node.value.func, "id", ""))
            if loops and not bounded and called in READS:
                found.add(node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child, loops=loops, bounded=bounded)

    visit(ast.parse(text), loops=False, bounded=False)
    return sorted(found)


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


def test_every_loop_of_reads_in_a_program_is_bounded() -> None:
    files = [path for folder in PROGRAMS for path in (ROOT / folder / "src").rglob("*.py")]
    assert len(files) > 100
    found = {str(path.relative_to(ROOT)): unbounded_in_program(path.read_text()) for path in files}
    assert {name: lines for name, lines in found.items() if lines and name not in GOES_ON} == {}
    assert {name for name in GOES_ON if not found[name]} == set()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("async def f(q):\n  while page := await page_of(q):\n    pass", [2]),
        ("async def f(q):\n  while True:\n    x = await q.items('main')", [3]),
        ("async def f(q):\n  while True:\n    with reads:\n      x = await q.items('main')", []),
        ("async def f(q):\n  with reading(q, 'x'):\n    while page := await page_of(q):\n      pass", []),
        ("async def f(q):\n  for one in names:\n    x = await q.items('main')", []),
    ],
)
def test_a_loop_of_reads_without_a_bounded_block_is_found(text: str, lines: list[int]) -> None:
    assert unbounded_in_program(text) == lines
