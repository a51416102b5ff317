"""Keys that users pause and apps close, with all that claims and ends do to items of keys: no item of a paused key
starts, and in the end each item was done once.

A failure is shown as it was found.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from claimq import Claim, KeyOrder, NewItem
from testkit.checkers.lockstep import World
from testkit.checkers.model_pauses import ModelPauses
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.queues.any_operations import EXACT, WORKERS, picks, search, workers
from testkit.servers.server import Server

keys = st.sampled_from(("a", "b", "c"))
items = st.lists(st.tuples(st.none() | keys, st.sampled_from((None, "x", "y"))), min_size=1, max_size=6)
ENDS = ("done", "interrupt", "requeue", "fail", "crash", "later", "close")


class PausedKeys(RuleBasedStateMachine):
    """No model of the items: what is stored must fit together, and no item of a paused key may start."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        super().__init__()
        self.world = World(runner, server, ("q",), WORKERS)
        self.pauses = ModelPauses()
        self.claims: dict[str, Claim] = {}
        self.enqueued = 0
        self.done: Counter[str] = Counter()

    @property
    def now(self) -> int:
        """In ms, by the clock of the queue."""
        return self.world.models["q"].now

    def teardown(self) -> None:
        """Everything is resumed, and what waits is done."""
        try:
            for key in "abc":
                self.pause_or_resume(key, paused=False, seconds=None)
            self.time_passes(100_000)
            for _ in range(20 + 2 * self.enqueued):
                self.reap()
                self.claim("w1", 9)
                self.end(list(range(10)), "done", 0)
            assert dict(self.done) == {f"item-{number}": 1 for number in range(self.enqueued)}
        finally:
            self.world.close()

    @invariant()
    def all_fits_together(self) -> None:
        assert inconsistencies(read_queue(self.world.raw, "q")) == []

    @initialize(order=st.sampled_from(KeyOrder), new=items)
    def begin(self, order: KeyOrder, new: list[tuple[str | None, str | None]]) -> None:
        policy = replace(EXACT, key_order=order, requeue_limit=1000, busy_expiry=3600)
        self.world.run(self.world.queue("q").set_policy(policy))
        self.enqueue(new)

    @rule(new=items)
    def enqueue(self, new: list[tuple[str | None, str | None]]) -> None:
        first, self.enqueued = self.enqueued, self.enqueued + len(new)
        orders = [
            NewItem("x", id=f"item-{first + at}", key=key, client=client)
            for at, (key, client) in enumerate(new)
        ]
        self.world.run(self.world.queue("q").enqueue_many(orders))

    @rule(worker=workers, count=st.integers(1, 6))
    def claim(self, worker: str, count: int) -> None:
        self.has_claimed(worker, count)

    def has_claimed(self, worker: str, count: int) -> bool:
        """A claim, which may get nothing."""
        claims = self.world.run(self.world.queue("q", worker).claim(count, wait=0))
        for claim in claims:
            key = claim.item.key
            assert key is None or not self.pauses.is_paused(self.now, key), f"{key} is paused"
        self.claims |= {claim.token: claim for claim in claims}
        return bool(claims)

    @rule(chosen=picks, kind=st.sampled_from(ENDS), delay=st.sampled_from((1, 6, 30)))
    def end(self, chosen: list[int], kind: str, delay: int) -> None:
        held = list(self.claims)
        tokens = list(dict.fromkeys(held[pick] for pick in chosen if pick < len(held)))
        if not tokens:
            return
        queue = self.world.queue("q")
        calls = {
            "done": lambda: queue.done(tokens),
            "interrupt": lambda: queue.unclaim(tokens),
            "requeue": lambda: queue.requeue(tokens),
            "fail": lambda: queue.fail(tokens, "no"),
            "crash": lambda: queue.crash(tokens, "died"),
            "later": lambda: queue.later(tokens, delay),
            "close": lambda: queue.later(tokens, delay, close="key"),
        }
        outcomes = self.world.run(calls[kind]())
        assert "lost" not in {outcome.verdict for outcome in outcomes}
        for claim in map(self.claims.pop, tokens):
            self.done[claim.item.id] += kind == "done"
            if kind == "close" and claim.item.key:
                self.pauses.close(self.now, 1000 * delay, claim.item.key)

    @rule(key=keys, paused=st.booleans(), seconds=st.sampled_from((None, 1, 30)))
    def pause_or_resume(self, key: str, paused: bool, seconds: int | None) -> None:
        queue = self.world.queue("q")
        if paused:
            until = None if seconds is None else timedelta(seconds=seconds)
            self.world.run(queue.pause(key=key, until=until))
            self.pauses.pause(self.now, seconds, key)
        else:
            assert self.world.run(queue.resume(key=key)) == self.pauses.is_paused(self.now, key)
            self.pauses.resume(key)

    @rule(milliseconds=st.sampled_from((1, 1000, 6000, 30_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.world.models["q"].now += milliseconds
        self.world.report_time()

    @rule()
    def reap(self) -> None:
        self.world.run(self.world.queue("q").reap())

    @rule()
    def what_may_start_starts(self) -> None:
        """Nothing waits behind a key that is free."""
        self.reap()
        while self.has_claimed("w1", 100):  # an item that has crashed comes alone
            pass
        seen = self.world.run(self.world.queue("q").snapshot())
        paused = {one.key: one.until for one in seen.pauses}
        assert paused == {key: until for key, (until, _, _) in self.pauses.seen(self.now).items()}
        stored = read_queue(self.world.raw, "q")
        busy = {item.key for item in stored.busy.values()}
        waiting = {item.key for at, item in stored.delayed if at > self.now and item.key}
        in_main = {item.key for items in stored.lists.values() for item in items}
        assert in_main <= busy | paused.keys() | waiting


@pytest.mark.timeout(3600)
def test_no_item_of_a_paused_key_starts_and_each_is_done_once(server: Server, runner: asyncio.Runner) -> None:
    search(PausedKeys, server, runner, examples=25, steps=40, shrinks=False)
