"""Limits of keys, clients and the queue while the queue is flushed, deleted and created again, failed items go back,
items are chosen, moved and followed by others, workers die, and leases run out.

None starts that must not, and when all work has ended nothing is left of what limits count. A failure is shown as it
was found.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from claimq import Done, KeyOrder, Limit, NewItem, QueueFull
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq.model import Reason
from claimq.policy import MaxWaiting
from claimq.tokens import number_of
from testkit.checkers.model_item import ModelItem
from testkit.checkers.stored import read_queue
from testkit.properties.any_operations import picks, search, workers
from testkit.properties.items_of_keys import ALL, COSTS, RATE, THREE, TOTAL, TWO, WEIGHT, Keys, New, items
from testkit.servers.server import Server

EACH = Limit("each", busy=2, per="client")
CALLS = Limit("calls", rate="9/m", burst=6, per="client", unit="cost")
LOAD = Limit("load", busy=6, per="client", unit="cost")
FEW = Limit("few", busy=3)
limits = st.sampled_from((
    (), (EACH,), (CALLS,), (LOAD,), (FEW,), (RATE, EACH), (COSTS, CALLS), (WEIGHT, LOAD, TWO), (TOTAL, EACH),
    (TOTAL, LOAD, WEIGHT, ALL), (FEW, EACH, THREE), (CALLS, RATE, FEW),
))  # fmt: skip
temporary = st.sampled_from((
    Limit("each", busy=1, per="client"), Limit("slots", busy=1, per="key"), Limit("few", busy=1), RATE,
    Limit("total", busy=5, unit="cost"), Limit("load", busy=9, per="client", unit="cost"), COSTS,
    Limit("calls", rate="1/s", burst=9, per="client", unit="cost"),
))  # fmt: skip
names = st.sampled_from(("x", "y"))
picked = st.integers(0, 30)


class Across(Keys):
    """Items that were chosen by their ids may overtake others, and be overtaken."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        super().__init__(runner, server)
        self.failed: set[str] = set()
        self.chosen: set[str] = set()

    @property
    def waiting(self) -> set[str]:
        return super().waiting - self.failed

    def end_all_work(self) -> None:
        """And then nothing is left of what limits count."""
        for client in "xy":
            self.pause_or_resume_client(client, paused=False, seconds=None)
        self.failed_go_back()
        self.world.run(self.world.queue("q").update_policy(limits=(), max_waiting=MaxWaiting()))
        super().end_all_work()
        self.reap()
        stored = read_queue(self.world.raw, "q")
        stored.keys.pop("", None)  # a mark
        counted = (stored.in_progress, stored.keys, stored.held, stored.limited, stored.starts)
        assert not any(counted), counted
        assert (stored.busy, stored.delayed, stored.lists, stored.delayed_clients) == ({}, [], {}, {})

    def overtaken_by(self, item: ModelItem) -> list[str]:
        chosen = [self.items[name] for name in self.chosen]
        if any(one is item for one in chosen):
            return []
        return [name for name in super().overtaken_by(item) if name not in self.chosen]

    def are_gone(self, gone: set[str]) -> None:
        self.done.update(dict.fromkeys(gone, 1))
        self.failed -= gone
        self.claims = {token: claim for token, claim in self.claims.items() if claim.item.id not in gone}

    @rule(new=items)
    def enqueue(self, new: list[New]) -> None:
        before = self.items.copy()
        try:
            super().enqueue(new)
        except QueueFull:
            self.items = before

    @rule(limits=limits)
    def set_more_limits(self, limits: tuple[Limit, ...]) -> None:
        self.set_limits(limits)

    @rule(limit=temporary, seconds=st.sampled_from((1, 6, 30)))
    def set_temporary_limit(self, limit: Limit, seconds: int) -> None:
        self.world.run(self.world.queue("q").set_limit(limit, until=timedelta(seconds=seconds)))
        self.held_back.change_limit(self.now, limit, seconds)

    @rule(most=st.sampled_from((None, 3, 9)), each=st.sampled_from((None, 2, 5)))
    def set_bound(self, most: int | None, each: int | None) -> None:
        bound = MaxWaiting(most, each and 60 * each, each, most and 60 * most)
        self.world.run(self.world.queue("q").update_policy(max_waiting=bound))

    @rule(client=names, paused=st.booleans(), seconds=st.sampled_from((None, 1, 30)))
    def pause_or_resume_client(self, client: str, paused: bool, seconds: int | None) -> None:
        queue, pauses = self.world.queue("q"), self.held_back.pauses
        if paused:
            self.world.run(
                queue.pause(client=client, until=None if seconds is None else timedelta(seconds=seconds))
            )
            pauses.pause(self.now, seconds, client)
        else:
            assert self.world.run(queue.resume(client=client)) == pauses.is_paused(self.now, client)
            pauses.resume(client)

    @rule(worker=workers, pick=picked, count=st.integers(0, 6))
    def claim_item(self, worker: str, pick: int, count: int) -> None:
        """And others behind it."""
        self.choose(worker, pick)
        if count:
            self.claim(worker, count)

    def choose(self, worker: str, pick: int) -> str | None:
        """Claims an item by its id, whatever its limits."""
        if not (waiting := sorted(self.waiting)):
            return None
        name = waiting[pick % len(waiting)]
        claim = self.world.run(self.world.queue("q", worker).claim_item(name))
        assert claim is not None, name
        self.chosen.add(name)
        self.claims[claim.token] = claim
        self.items[name].number = number_of(claim.token)
        self.held_back.started(self.now, [self.items[name]])
        return claim.token

    @rule(
        worker=workers, pick=picked, kind=st.sampled_from(("interrupt", "requeue", "delay", "move", "drop"))
    )
    def act_on_an_item(self, worker: str, pick: int, kind: str) -> None:
        """As `item move`, `item delay` and others do."""
        if (token := self.choose(worker, pick)) is None:
            return None
        queue, item = self.world.queue("q"), self.claims[token].item
        if kind == "interrupt":
            return self.end([list(self.claims).index(token)], "interrupt", 0)
        if kind == "move":
            self.world.run(queue.done([Done(token, {"r": [NewItem("x", key=item.key, client=item.client)]})]))
        elif kind == "drop":
            self.world.run(queue.drop(token, "no"))
        else:
            self.world.run(queue.requeue(token, delay=6 if kind == "delay" else None))
        del self.claims[token]
        if kind in ("move", "drop"):
            self.done[item.id] += 1
        return None

    @rule(worker=workers, chosen=picks, count=st.integers(1, 6))
    def done_and_claim(self, worker: str, chosen: list[int], count: int) -> None:
        held = list(self.claims)
        tokens = list(dict.fromkeys(held[pick] for pick in chosen if pick < len(held)))
        outcomes, claims = self.world.run(
            next_claims(self.world.queue("q", worker)).done_and_claim(tokens, count)
        )
        assert {outcome.verdict for outcome in outcomes} <= {"done"}
        self.done.update(self.claims.pop(token).item.id for token in tokens)
        self.have_started(claims)

    @rule(pick=picked, new=items)
    def done_with_followers(self, pick: int, new: list[New]) -> None:
        if not self.claims:
            return
        token = list(self.claims)[pick % len(self.claims)]
        orders: list[NewItem] = []
        for number, (key, client, cost) in enumerate(new, start=len(self.items)):
            orders.append(NewItem("x", id=f"item-{number}", key=key, client=client, cost=cost))
            self.items[f"item-{number}"] = ModelItem(b"x", client=client or "-", key=key or "", cost=cost)
        self.world.run(self.world.queue("q").done([Done(token, orders)]))
        self.done[self.claims.pop(token).item.id] += 1

    @rule(chosen=picks)
    def fail_for_good(self, chosen: list[int]) -> None:
        held = list(self.claims)
        tokens = list(dict.fromkeys(held[pick] for pick in chosen if pick < len(held)))
        self.world.run(self.world.queue("q").fail(tokens, "no", permanent=True))
        self.failed |= {self.claims.pop(token).item.id for token in tokens}

    @rule()
    def failed_go_back(self) -> None:
        """To the tail, as new ones."""
        assert self.world.run(self.world.queue("q").requeue_failed()) == len(self.failed)
        for name in self.failed:
            self.items[name] = self.items.pop(name)
            self.items[name].number = 0
        self.chosen |= self.failed  # in which order is not known here
        self.failed.clear()

    @rule(worker=workers, reason=st.sampled_from(Reason), counts_again=st.booleans())
    def release_worker(self, worker: str, reason: Reason, counts_again: bool) -> None:
        self.world.run(self.world.queue("q").release_worker(worker, reason))
        self.claims = {token: claim for token, claim in self.claims.items() if claim.worker != worker}
        if counts_again and reason is Reason.INTERRUPTED:
            self.world.run(internals(self.world.queue("q")).recount(worker, "out of memory"))

    @rule()
    def leases_run_out(self) -> None:
        self.time_passes(3_700_000)
        while self.world.run(self.world.queue("q").reap()).expired:
            pass
        busy = read_queue(self.world.raw, "q").busy
        self.claims = {token: claim for token, claim in self.claims.items() if token in busy}

    @rule(client=names)
    def flush_client(self, client: str) -> None:
        in_main = {item.id for item in read_queue(self.world.raw, "q").lists.get(client, ())}
        assert self.world.run(self.world.queue("q").flush_client(client)) == len(in_main)
        self.are_gone(in_main)

    @rule(sure=st.integers(0, 3))
    def flush(self, sure: int) -> None:
        if not sure:
            self.world.run(self.world.queue("q").flush())
            self.are_gone(self.items.keys() - self.done.keys())

    @rule(sure=st.integers(0, 3), limits=limits, order=st.sampled_from(KeyOrder))
    def delete_and_begin(self, sure: int, limits: tuple[Limit, ...], order: KeyOrder) -> None:
        if sure:
            return
        self.world.run(self.world.queue("q").delete())
        self.are_gone(self.items.keys() - self.done.keys())
        self.pauses._pauses.clear()
        self.held_back.pauses._pauses.clear()
        self.held_back.temporary.clear()
        self.held_back._starts.clear()
        self.held_back._lapsed.clear()
        policy = replace(self.held_back.policy, key_order=order, limits=())
        self.world.run(self.world.queue("q").set_policy(policy))
        self.held_back.policy = policy
        self.set_limits(limits)


@pytest.mark.timeout(3600)
def test_limits_hold_across_all_that_happens_to_a_queue(server: Server, runner: asyncio.Runner) -> None:
    search(Across, server, runner, examples=40, steps=60, shrinks=False)
