"""/v1/next when no replica confirms the done: the claim in the same call must not keep an item that no app has."""

from contextlib import suppress

from claimq import NotReplicated, Policy, State
from testkit.plugin import ServerFactory
from testkit.servers.patient import open_blocking_queue
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import StartSidecar


def test_the_next_item_goes_back_when_no_replica_confirms_the_done_before_it(
    start_server: ServerFactory, start_sidecar: StartSidecar
) -> None:
    primary = start_server("valkey", {"repl-diskless-sync-delay": "0"}, tcp=True)
    with open_blocking_queue(primary.url) as queue:
        queue.set_policy(Policy(busy_expiry=3600, durability="replicated", durable_done=True))
        for text in "ab":
            with suppress(NotReplicated):  # there is no replica
                queue.enqueue(text)
        sidecar = start_sidecar(primary.url, concurrency="1")
        (claim,) = sidecar.claim(1, wait=0)
        token = claim["token"]
        answer = sidecar.ask("POST", "/v1/next", {"done": [{"token": token}], "wait": 0})
        assert answer.status == 503, answer.json
        eventually_sync(
            lambda: queue.lengths()[State.MAIN] == 1 and sidecar.info["in_flight"] == 0,
            why="the next item is back",
        )
        assert (queue.length(State.BUSY), queue.stats()["done"]) == (0, 1)
        again = sidecar.ask("POST", "/v1/next", {"done": [{"token": token}], "wait": 0, "encoding": "text"})
        assert [one["outcome"] for one in again.json["outcomes"]] == ["already_done"]
        assert [claim["text"] for claim in again.json["claims"]] == ["b"]
