"""Operations on items of keys, at random, and what must hold for their starts: a machine for tests of properties."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import takewhile

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from claimq import Claim, KeyOrder, Limit, NewItem
from claimq.tokens import number_of
from testkit.checkers.lockstep import World
from testkit.checkers.model_held_back import HeldBack
from testkit.checkers.model_item import ModelItem
from testkit.checkers.model_pauses import ModelPauses
from testkit.checkers.stored import LAST_MS, inconsistencies, read_queue
from testkit.properties.any_operations import EXACT, WORKERS, picks, workers
from testkit.servers.server import Server

keys = st.sampled_from(("a", "b", "c"))
New = tuple[str | None, str | None, int]
"""Key, client and cost."""
items: st.SearchStrategy[list[New]] = st.lists(
    st.tuples(st.none() | keys, st.sampled_from((None, "x", "y")), st.sampled_from((1, 1, 2, 5))),
    min_size=1,
    max_size=6,
)
TWO, THREE = Limit("slots", busy=2, per="key"), Limit("slots", busy=3, per="key")
RATE = Limit("api", rate="9/m", burst=2, per="key")
COSTS = Limit("costs", rate="9/m", burst=6, per="key", unit="cost")
ALL = Limit("all", rate="30/m", burst=8, unit="cost")
WEIGHT = Limit("weight", busy=7, per="key", unit="cost")
TOTAL = Limit("total", busy=9, unit="cost")
limits = st.sampled_from((
    (), (TWO,), (THREE,), (RATE,), (RATE, TWO), (COSTS,), (COSTS, THREE), (COSTS, RATE, THREE), (ALL, TWO),
    (WEIGHT,), (WEIGHT, TWO, COSTS), (TOTAL,), (TOTAL, WEIGHT, THREE),
))  # fmt: skip
ENDS = ("done", "interrupt", "requeue", "fail", "crash", "later", "close")


class Keys(RuleBasedStateMachine):
    """No model of where the items are: what is stored must fit together, and a start must be allowed."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        super().__init__()
        self.world = World(runner, server, ("q",), WORKERS)
        self.pauses = ModelPauses()
        self.held_back = HeldBack()
        self.claims: dict[str, Claim] = {}
        self.items: dict[str, ModelItem] = {}
        """All of them, in order."""
        self.done: Counter[str] = Counter()

    @property
    def now(self) -> int:
        """In ms, by the clock of the queue."""
        return self.world.models["q"].now

    @property
    def is_strict(self) -> bool:
        """Whether the queue has strict order of keys."""
        return self.held_back.policy.key_order is KeyOrder.STRICT

    @property
    def waiting(self) -> set[str]:
        """The items that are neither in progress nor done."""
        return self.items.keys() - self.done.keys() - {claim.item.id for claim in self.claims.values()}

    @property
    def busy(self) -> list[ModelItem]:
        """The items in progress."""
        return [self.items[claim.item.id] for claim in self.claims.values()]

    def teardown(self) -> None:
        try:
            self.end_all_work()
            assert dict(self.done) == dict.fromkeys(self.items, 1)
        finally:
            self.world.close()

    def end_all_work(self) -> None:
        """Resumes everything, and ends what waits."""
        for key in "abc":
            self.pause_or_resume(key, paused=False, seconds=None)
        self.set_limits(())
        self.time_passes(301_000)  # beyond the longest delay of a retry, five minutes
        for _ in range(20 + 2 * len(self.items)):
            self.reap()
            self.claim("w1", 9)
            self.end(list(range(10)), "done", 0)

    @invariant()
    def all_fits_together(self) -> None:
        found = inconsistencies(read_queue(self.world.raw, "q"))
        assert found == [], found

    @initialize(order=st.sampled_from(KeyOrder), limits=limits, new=items)
    def begin(self, order: KeyOrder, limits: tuple[Limit, ...], new: list[New]) -> None:
        policy = replace(EXACT, key_order=order, requeue_limit=1000, busy_expiry=3600)
        self.world.run(self.world.queue("q").set_policy(policy))
        self.held_back.policy = policy
        self.set_limits(limits)
        self.enqueue(new)

    @rule(limits=limits)
    def set_limits(self, limits: tuple[Limit, ...]) -> None:
        self.world.run(self.world.queue("q").update_policy(limits=limits))
        self.held_back.policy = replace(self.held_back.policy, limits=limits)
        self.held_back.forget()

    @rule(new=items)
    def enqueue(self, new: list[New]) -> None:
        orders: list[NewItem] = []
        for number, (key, client, cost) in enumerate(new, start=len(self.items)):
            orders.append(NewItem("x", id=f"item-{number}", key=key, client=client, cost=cost))
            self.items[f"item-{number}"] = ModelItem(b"x", client=client or "-", key=key or "", cost=cost)
        self.world.run(self.world.queue("q").enqueue_many(orders))

    @rule(worker=workers, count=st.integers(1, 6))
    def claim(self, worker: str, count: int) -> None:
        self.has_claimed(worker, count)

    def has_claimed(self, worker: str, count: int) -> bool:
        """A claim, which may get nothing."""
        claims = self.world.run(self.world.queue("q", worker).claim(count, wait=0))
        self.have_started(claims)
        return bool(claims)

    def have_started(self, claims: list[Claim]) -> None:
        """They may have."""
        busy, starting = self.busy, list[ModelItem]()
        for claim in claims:
            item = self.items[claim.item.id]
            assert not self.pauses.is_paused(self.now, item.key), f"{item.key} is paused"
            assert self.held_back.fits(self.now, item, starting, busy)[1], f"{claim.item} may not start"
            self.claims[claim.token] = claim
            assert not (overtaken := self.overtaken_by(item)), f"{claim.item} has overtaken {overtaken}"
            starting.append(item)
        for claim in claims:
            self.items[claim.item.id].number = number_of(claim.token)
        self.held_back.started(self.now, starting)

    def overtaken_by(self, item: ModelItem) -> list[str]:
        """Items of its key and client that wait, are older, and ought to start first."""
        if not item.key or (item.number and not self.is_strict):
            return []
        older = takewhile(lambda named: named[1] is not item, self.items.items())
        return [
            name
            for name, one in older
            if (one.key, one.client) == (item.key, item.client)
            and name in self.waiting
            and (self.is_strict or not one.number)
        ]

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
        if kind == "interrupt":
            self.held_back.given_back(self.now, [self.items[self.claims[token].item.id] for token in tokens])
        for claim in map(self.claims.pop, tokens):
            if kind == "done":
                self.done[claim.item.id] += 1
            if kind == "close" and claim.item.key:
                self.pauses.close(self.now, 1000 * delay, claim.item.key)

    @rule(worker=workers, count=st.integers(1, 6))
    def what_comes_back_starts(self, worker: str, count: int) -> None:
        """What is given back at once may start at once."""
        before = self.claims.copy()
        self.claim(worker, count)
        self.end([at for at, token in enumerate(self.claims) if token not in before], "interrupt", 1)
        self.what_may_start_starts()

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
        """Nothing waits that may start."""
        for _ in range(2):  # one that finds something does not reap
            while self.has_claimed("w1", 100):  # an item that has crashed comes alone
                pass
        seen = self.world.run(self.world.queue("q").snapshot())
        paused = {one.key: one.until for one in seen.pauses if one.key}
        assert paused == {key: until for key, (until, _, _) in self.pauses.seen(self.now).items()}
        stored = read_queue(self.world.raw, "q")
        later = {item.id: item.key for at, item in stored.delayed if self.now < at <= LAST_MS}
        closed = paused.keys() | {key for key in later.values() if key and self.is_strict}
        due = [self.items[name] for name in self.waiting - later.keys()]
        fits = self.held_back.fits
        if any(not fits(self.now, item, (), self.busy, "queue")[0] for item in due):
            return  # it holds the turn, also if its key is closed and it is not held yet
        behind = {item.client for item in due if not fits(self.now, item, (), self.busy, "client")[0]}
        ready = [item for item in due if item.key not in closed]
        for key in {item.key for item in ready}:
            of_key = [item for item in ready if item.key == key]
            can_start = all(
                item.client not in behind and fits(self.now, item, (), self.busy)[0] for item in of_key
            )
            assert not can_start, (of_key, stored.stats.get("limits"), stored.in_progress, stored.ring)
