"""Bodies of enqueues that wait for a slot: their clients choose how much of them arrives, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from claimq_web.changes.bodies import Bodies
from claimq_web.users.limits import TooManyRequests

Sent = asyncio.Queue[Message]


def request_of(sent: Sent) -> Request:
    return Request({"type": "http"}, sent.get)


def part(size: int, *, is_last: bool = False) -> Message:
    return {"type": "http.request", "body": b"x" * size, "more_body": not is_last}


async def begun(bodies: Bodies, user: str, size: int, stack: AsyncExitStack) -> asyncio.Task[None]:
    """A request of which a part has arrived, or all of it if the size is even. Then it waits for its slot."""

    async def wait() -> None:
        sent = Sent()
        sent.put_nowait(part(size, is_last=size % 2 == 0))
        async with bodies.one(request_of(sent), user, 60):
            await asyncio.Future()

    task = asyncio.create_task(wait())
    stack.callback(task.cancel)
    await settled()
    return task


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_namespace_with_the_most_bytes_loses_its_largest_body() -> None:
    bodies = Bodies(100)
    async with AsyncExitStack() as stack:
        ann = await begun(bodies, "ann", 39, stack)
        eve = [
            await begun(bodies, f"system:serviceaccount:evil:eve-{number}", size, stack)
            for number, size in enumerate((11, 21, 20))
        ]
        assert not any(one.done() for one in (ann, *eve))
        bob = await begun(bodies, "bob", 29, stack)
        assert [one.done() for one in (ann, bob, *eve)] == [False, False, False, True, False]
        with pytest.raises(TooManyRequests, match=r"^requests of others need the memory; send it again"):
            await eve[1]


async def test_a_body_that_has_its_slot_counts_no_more() -> None:
    bodies = Bodies(100)
    for _ in range(3):
        sent = Sent()
        sent.put_nowait(part(50))
        sent.put_nowait(part(50, is_last=True))
        async with bodies.one(request_of(sent), "ann", 60) as body:
            assert body == b"x" * 100


@pytest.mark.parametrize("fail", [lambda: TimeoutError("of a slot"), lambda: HTTPException(404, "x")])
async def test_other_errors_inside_the_block_are_passed_on(fail: Callable[[], Exception]) -> None:
    error, sent = fail(), Sent()
    sent.put_nowait(part(1, is_last=True))
    with pytest.raises(type(error)) as found:
        async with Bodies(100).one(request_of(sent), "ann", 60):
            raise error
    assert found.value is error


async def test_a_body_that_does_not_arrive_is_answered_with_408() -> None:
    with pytest.raises(HTTPException) as found:
        async with Bodies(100).one(request_of(Sent()), "ann", 0.01):
            pass
    assert found.value.status_code == 408
