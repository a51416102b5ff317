"""Changes of many items that run after the request that started them."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from claimq_admin.selection.selected_items import Change, SelectedItems
from claimq_web.changes import runs
from claimq_web.changes.runs import Run, Runs


class Endless:
    """An action that runs until it is stopped."""

    async def carry_out(self, _: object, stop: asyncio.Event) -> None:
        await stop.wait()


class Short:
    """An action that ends at once."""

    async def carry_out(self, *_: object) -> None:
        return


class Broken:
    """An action whose server sends an answer that cannot be read."""

    async def carry_out(self, *_: object) -> None:
        raise ValueError("no number")


def run_of(user: str, *, allowed: bool = True, action: object | None = None, queue: str = "orders") -> Run:
    async def is_allowed() -> bool:
        return allowed

    items = cast("SelectedItems", action or Endless())
    return Run(
        queue,
        user,
        items,
        cast("Change", "change"),
        is_allowed,
        lambda error: error,
    )


async def test_a_run_ends_when_its_user_loses_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_CHECK_EVERY", 0.01)
    lost, kept = run_of("eve", allowed=False), run_of("ann")
    found = Runs()
    run_id = found.start(lost)
    assert run_id
    found.start(kept)
    await lost.stop.wait()
    assert found.find(run_id, "orders") is lost
    await asyncio.sleep(0)
    assert lost.problem == "eve may not change this queue any more"
    assert not kept.stop.is_set()
    await found.close()
    assert (lost.state, kept.state) == ("failed", "stopped")


async def test_a_run_that_ends_with_a_defect_is_not_done() -> None:
    found, broken = Runs(), run_of("ann", action=Broken())
    found.start(broken)
    await found.close()
    assert (broken.state, broken.problem) == (
        "failed",
        "it ended with an unexpected error: ValueError('no number')",
    )


async def test_one_user_does_not_use_all_that_may_run() -> None:
    found = Runs()
    assert [bool(found.start(run_of("eve"))) for _ in range(4)] == [True, True, True, False]
    assert found.start(run_of("ann"))
    await found.close()


async def test_the_users_of_one_namespace_do_not_use_all_that_may_run() -> None:
    found = Runs()
    begun = [bool(found.start(run_of(f"user-{n}", queue=f"shop.queue-{n}"))) for n in range(16)]
    assert sum(begun) == 4
    assert found.start(run_of("ann", queue="bank.orders"))
    await found.close()


async def test_eight_runs_of_all_namespaces_are_the_most() -> None:
    runs = Runs()
    begun = [bool(runs.start(run_of(f"user-{n}", queue=f"shop-{n}.queue"))) for n in range(16)]
    assert sum(begun) == 8
    await runs.close()


@pytest.mark.parametrize("users", [1, 50])
async def test_ended_runs_of_one_user_or_namespace_push_none_of_others_out(users: int) -> None:
    found = Runs()
    kept = found.start(run_of("ann", action=Short(), queue="bank.orders"))
    for number in range(250):
        queue = f"shop-{number}.orders" if users == 1 else "shop.orders"
        found.start(run_of(f"eve-{number % users}", action=Short(), queue=queue))
        await found.close()
    assert kept
    assert found.find(kept, "bank.orders")
    found.start(run_of("ann"))
    queues = {run.queue for run in found._runs.values() if not run.is_running}
    assert len(found._runs) == 101
    assert len(queues) == (100 if users == 1 else 2)
    assert ("shop-249.orders" if users == 1 else "shop.orders") in queues
    await found.close()
