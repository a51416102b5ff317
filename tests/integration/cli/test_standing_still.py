"""A worker that hangs: what the commands report, and `claimq drain`, which replaces it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from claimq import Limit, NewItem, ReliableQueue, connect
from testkit.queues.clock import move_clock
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import eventually_sync


async def hang(queue: ReliableQueue) -> None:
    """The worker `w` has ended an item. It holds the item order-7 for two minutes, and another one waits."""
    await queue.update_policy(busy_expiry=3600)
    await queue.enqueue_many([NewItem(text, id=f"order-{n}") for n, text in ((6, "z"), (7, "a"), (8, "b"))])
    await queue.done(await queue.claim(wait=0))
    await queue.claim(wait=0)
    await move_clock(queue, 120)


def test_status_and_doctor_name_the_worker_the_item_and_the_command(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    queue_do(hang)
    sentence = on("status", "q", "-o", "json").json["attention"]
    assert sentence.startswith("no progress since ")
    assert ": items wait, and w has held the item order-7 since " in sentence
    assert sentence.endswith("; see the log of w, and if it hangs, replace it: claimq drain q w")
    assert on("status", "q").out.splitlines()[-1] == f"q: {sentence}"
    monitored = on("check", "q")
    assert (monitored.code, monitored.out.startswith("CRITICAL - q: ")) == (2, True)
    assert f", {sentence} | " in monitored.out
    (check,) = (
        one
        for one in on("doctor", "q", "-o", "json").json["checks"]
        if one["check"] == "queue q: oldest item"
    )
    assert (check["state"], f"{check['message']}; {check['fix']}") == ("problem", sentence)


def test_doctor_names_an_item_that_hangs_while_nothing_waits(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    async def hang_alone(queue: ReliableQueue) -> None:
        await hang(queue)
        await queue.done(await queue.claim(wait=0))
        await move_clock(queue, 600)

    queue_do(hang_alone)
    checks = {check["check"]: check for check in on("doctor", "q", "-o", "json").json["checks"]}
    found = checks["queue q: items in progress"]
    assert found["state"] == "warning"
    assert found["message"].startswith("long item: w has held the item order-7 since ")
    assert found["message"].endswith("much longer than items take (12 min)")
    assert "replace it: claimq drain q w; with processingTimeout set, " in found["fix"]


def test_an_item_that_waits_has_the_same_sentence_as_its_reason(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    queue_do(hang)
    sentence = on("status", "q", "-o", "json").json["attention"]
    waits = on("item", "show", "q", "order-8", "-o", "json").json["waits"]
    assert (waits["reason"], waits["text"]) == (
        "no_worker",
        f"no worker has asked for items lately: {sentence}",
    )


def test_the_sentence_is_said_too_of_an_item_beyond_the_first_places(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    async def hang_with_many(queue: ReliableQueue) -> None:
        await hang(queue)
        await queue.enqueue_many(["x"] * 600)

    queue_do(hang_with_many)
    sentence = on("status", "q", "-o", "json").json["attention"]
    shown = on("item", "show", "q", "one-of-them")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.endswith(f"(`claimq item show --all`); in q there is {sentence}\n")


def test_both_workers_that_hang_are_named_with_their_commands(
    on: Callable[..., Any], queue_do: Callable[..., Any], valkey: Server
) -> None:
    async def hang_both(queue: ReliableQueue) -> None:
        await hang(queue)
        async with connect(settings=patient(valkey.url)) as server:
            await server.queue("q", worker="v").claim(wait=0)
        await queue.enqueue("c")
        await move_clock(queue, 120)

    queue_do(hang_both)
    commands = "replace it: claimq drain q w; the same for the others with items: claimq drain q v"
    assert on("status", "q", "-o", "json").json["attention"].endswith(commands)
    assert f"{commands} | " in on("check", "q").out
    assert "drain q v" in " ".join(on("doctor", "q").out.split())


def test_a_queue_whose_items_are_claimed_needs_no_attention(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    async def claim_again(queue: ReliableQueue) -> None:
        await hang(queue)
        await queue.claim(wait=0)
        await queue.enqueue("c")

    queue_do(claim_again)
    assert on("status", "q", "-o", "json").json["attention"] is None


def test_status_says_that_a_limit_holds_items_back_and_check_takes_it_for_well(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    async def reach_the_limit(queue: ReliableQueue) -> None:
        await queue.update_policy(limits=[Limit("api", rate="1/d")])
        await queue.enqueue_many(["a", "b"])
        await queue.claim(2, wait=0)

    queue_do(reach_the_limit)
    sentence = on("status", "q", "-o", "json").json["attention"]
    assert sentence.startswith(
        "items wait for the limits of the queue: api:rate=1/d; the next one may start at"
    )
    assert on("check", "q").code == 0


def test_drain_ends_the_app_of_a_worker_and_another_one_gets_its_item(
    start_up: Callable[..., Any], claimq: Callable[..., Any], hanging_app: list[str], tmp_path: Path
) -> None:
    start_up({"worker": {"command": hanging_app}, "scaling": {"mode": "Manual", "replicas": 1}})
    claimq("enqueue", "trial", "stuck")
    eventually_sync((tmp_path / "stuck").exists)
    drained = claimq("drain", "trial", "trial-1")
    assert drained.code == 0
    assert drained.out.startswith("trial: trial-1 is drained: the app (process ")
    eventually_sync(lambda: claimq("status", "trial", "-o", "json").json["counters"]["done"] == 1)
    records = claimq("audit", "trial", "-o", "json").json["records"]
    assert (records[0]["action"], records[0]["target"]) == ("drain", "trial-1")


def test_drain_of_a_worker_that_no_local_mode_has_says_what_to_do(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    queue_do(hang)
    drained = on("drain", "q", "w")
    assert drained.code == 1
    assert "no running `claimq up` has the worker w of q; end its process where it runs" in drained.err
    assert "`claimq release q w` gives its items back" in drained.err
