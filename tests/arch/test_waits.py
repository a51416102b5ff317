"""No thread waits for another one without a limit: while the interpreter ends, other threads do not run any more."""

import ast
from collections.abc import Iterator

from testkit.repository.tree import parsed, shown, sources

WAITS = {"acquire", "communicate", "join", "wait"}
"""Methods of locks, threads, events and processes that wait forever if they get no argument."""


def endless_waits(tree: ast.Module) -> Iterator[int]:
    """The lines of such calls. A coroutine that is awaited, or passed on, can be cancelled."""
    awaited = [node.value for node in ast.walk(tree) if isinstance(node, ast.Await)]
    branches = [branch for one in awaited if isinstance(one, ast.IfExp) for branch in (one.body, one.orelse)]
    coroutines = {id(one) for one in [*awaited, *branches]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            coroutines |= {id(argument) for argument in node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and id(node) not in coroutines:
            waits = node.func.attr in WAITS and not node.args and not node.keywords
            if waits or node.func.attr == "run_coroutine_threadsafe":  # whose future has no limit by itself
                yield node.lineno


def test_no_wait_for_another_thread_is_without_a_limit() -> None:
    assert [f"{shown(path)}:{line}" for path in sources() for line in endless_waits(parsed(path))] == []


def test_waits_are_found_where_nothing_can_cancel_them() -> None:
    text = """
lock.acquire()
thread.join()
lock.acquire(timeout=1)
async def wait():
    await event.wait()
    process.wait()
    asyncio.ensure_future(event.wait())
"""
    assert sorted(endless_waits(ast.parse(text))) == [2, 3, 7]
