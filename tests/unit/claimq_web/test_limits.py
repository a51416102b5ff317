"""What a server can do to the page: nothing but fail by itself."""

import asyncio
import contextlib
from contextlib import AsyncExitStack, ExitStack

import pytest
from starlette.exceptions import HTTPException

from claimq.errors import InvalidName, StoreUnavailable
from claimq_web.users.limits import AtOnce, RequestsOfUsers, TooManyRequests, answering


async def test_a_read_that_does_not_end_is_ended() -> None:
    with pytest.raises(StoreUnavailable, match=r"^the server did not finish .* within 0\.01 s"):
        async with answering("orders", 0.01):
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error", [ValueError("x"), IndexError("x"), TypeError("x"), UnicodeDecodeError("utf-8", b"", 0, 1, "x")]
)
async def test_an_answer_that_cannot_be_read_counts_as_an_outage(error: Exception) -> None:
    with pytest.raises(StoreUnavailable, match=r"^the answers of the server cannot be read"):
        async with answering("orders", 60):
            raise error


@pytest.mark.parametrize("error", [InvalidName("x"), HTTPException(404, "x"), StoreUnavailable("x")])
async def test_other_errors_are_passed_on(error: Exception) -> None:
    with pytest.raises(type(error)) as found:
        async with answering("orders", 60):
            raise error
    assert found.value is error


def test_requests_of_one_user_leave_room_for_others() -> None:
    requests = RequestsOfUsers()
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(requests.one("mallory"))
        with pytest.raises(TooManyRequests), requests.one("mallory"):
            pass
        stack.enter_context(requests.one("ann"))
    with requests.one("mallory"):
        pass


def test_service_accounts_of_a_namespace_share_their_requests() -> None:
    requests = RequestsOfUsers()
    with ExitStack() as stack:
        for number in range(32):
            stack.enter_context(requests.one(f"system:serviceaccount:evil:account-{number}"))
        with pytest.raises(TooManyRequests), requests.one("system:serviceaccount:evil:another"):
            pass
        stack.enter_context(requests.one("system:serviceaccount:shop:ann"))


async def started(
    at_once: AtOnce, name: str, user: str, stack: AsyncExitStack
) -> asyncio.Task[contextlib.AbstractAsyncContextManager[None]]:
    """A task that has asked for a slot."""

    async def enter() -> contextlib.AbstractAsyncContextManager[None]:
        slot = at_once.slot(name, user)
        await slot.__aenter__()
        return slot

    task = asyncio.create_task(enter())
    stack.callback(task.cancel)
    for _ in range(10):
        await asyncio.sleep(0)
    return task


async def test_a_user_or_a_namespace_does_not_take_all_slots() -> None:
    at_once = AtOnce(of_a_queue=2, of_a_user=4, of_a_namespace=8, altogether=16)
    async with AsyncExitStack() as stack:
        of_a_user = [await started(at_once, f"evil.q{number}", "mallory", stack) for number in range(9)]
        assert sum(task.done() for task in of_a_user) == 4
        of_others = [await started(at_once, f"evil.q{number}", f"m{number}", stack) for number in range(9)]
        assert sum(task.done() for task in of_others) == 4, "the namespace has 8"
        assert (await started(at_once, "shop.orders", "ann", stack)).done()


async def test_a_request_that_waits_for_its_user_holds_no_queue_of_others() -> None:
    at_once = AtOnce(of_a_queue=2, of_a_user=4, of_a_namespace=8, altogether=16)
    async with AsyncExitStack() as stack:
        for number in range(4):
            await started(at_once, f"evil.q{number}", "mallory", stack)
        waiting = [await started(at_once, "shop.orders", "mallory", stack) for _ in range(5)]
        assert not any(task.done() for task in waiting)
        assert (await started(at_once, "shop.orders", "ann", stack)).done()


async def test_a_queue_has_a_limited_number_of_waiting_requests() -> None:
    at_once = AtOnce(of_a_queue=2, of_a_user=4, of_a_namespace=8, altogether=16)
    async with AsyncExitStack() as stack:
        for number in range(10):
            await started(at_once, "evil.q", f"m{number}", stack)
        with pytest.raises(TooManyRequests):
            await (await started(at_once, "evil.q", "ann", stack))
