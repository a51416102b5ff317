"""All operations by several workers, at random, against a plain model. After every step every key is compared.

testkit.properties.any_operations names the variables for a longer search, or one elsewhere.
"""

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from claimq import Limit
from claimq.model import Reason
from claimq.policy import Policy, PolicyFields
from testkit.checkers.lockstep import New, World
from testkit.checkers.lockstep_failed import Filters
from testkit.properties.any_operations import (
    ENDED,
    EXACT,
    GIVEN_BACK,
    QUEUES,
    WORKERS,
    ages,
    changed_limits,
    chunks,
    clients,
    counts,
    delays,
    filters,
    items,
    of_priorities,
    payloads,
    picks,
    policies,
    queues,
    search,
    workers,
)
from testkit.servers.server import Server


class Operations(RuleBasedStateMachine):
    """One rule an operation; `World` makes it on the server and on the model and compares what they say."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        super().__init__()
        self.world = World(runner, server, QUEUES, WORKERS)
        self.followers = 0

    def teardown(self) -> None:
        self.world.close()

    @invariant()
    def nothing_differs(self) -> None:
        self.world.check()

    def tokens(self, name: str, chosen: list[int]) -> list[str]:
        """Live claims, and some that have ended."""
        model = self.world.models[name]
        ended = [token for token in model.all_tokens if token not in model.busy]
        pool = [*model.busy, *ended[-2:]]
        return [pool[pick % len(pool)] for pick in chosen] if pool else []

    def failed_name(self, name: str, pick: int) -> str:
        names = self.world.models[name].failed_in_order()
        return names[pick % len(names)] if names else "nothing"

    def some_claimed(self) -> bool:
        return any(model.busy for model in self.world.models.values())

    @initialize(policy=policies, new=st.lists(items, min_size=4, max_size=12))
    def begin(self, policy: Policy, new: list[New]) -> None:
        self.world.set_policy("q", policy)
        self.world.set_policy("r", EXACT)
        self.world.enqueue({"q": new})

    def some_failed(self) -> bool:
        return any(model.failed for model in self.world.models.values())

    @rule(name=queues, new=st.lists(items, min_size=1, max_size=5))
    def enqueue(self, name: str, new: list[New]) -> None:
        self.world.enqueue({name: new})

    @rule(one=st.lists(items, min_size=1, max_size=2), other=st.lists(items, min_size=1, max_size=2))
    def enqueue_to_both(self, one: list[New], other: list[New]) -> None:
        self.world.enqueue({"q": one, "r": other})

    @rule(name=queues, payload=st.one_of(payloads, st.just(b"cq1!x")))
    def push_bare(self, name: str, payload: bytes) -> None:
        self.world.push_bare(name, payload)

    @rule(name=queues, worker=workers, count=st.integers(1, 6))
    def claim(self, name: str, worker: str, count: int) -> None:
        self.world.claim(name, worker, count)

    @rule(worker=workers, count=st.integers(1, 6))
    def claim_more(self, worker: str, count: int) -> None:
        self.world.claim("q", worker, count)

    @rule(worker=workers, count=st.integers(1, 6), kind=st.sampled_from(GIVEN_BACK))
    def claim_and_give_back(self, worker: str, count: int, kind: str) -> None:
        self.world.claim("q", worker, count)
        held = [token for token, one in self.world.models["q"].busy.items() if one.worker == worker]
        if held:
            self.world.give_back("q", held, kind, "no", None)

    @precondition(some_claimed)
    @rule(name=queues, chosen=picks)
    def done(self, name: str, chosen: list[int]) -> None:
        self.world.done(name, self.tokens(name, chosen))

    @precondition(some_claimed)
    @rule(name=queues, worker=workers, chosen=picks, count=st.integers(1, 6))
    def done_and_claim(self, name: str, worker: str, chosen: list[int], count: int) -> None:
        self.world.done_and_claim(name, worker, self.tokens(name, chosen), count)

    @precondition(some_claimed)
    @rule(
        name=queues,
        chosen=st.lists(
            st.tuples(st.integers(0, 9), st.lists(st.tuples(queues, items), max_size=2)), max_size=3
        ),
    )
    def done_with_followers(self, name: str, chosen: list[tuple[int, list[tuple[str, New]]]]) -> None:
        followers: list[tuple[str, dict[str, list[New]]]] = []
        for token, (_, wanted) in zip(self.tokens(name, [pick for pick, _ in chosen]), chosen, strict=False):
            to: dict[str, list[New]] = {}
            for other, (payload, own_id, client, delay) in wanted:
                self.followers += 1
                to.setdefault(other, []).append((payload, own_id or f"f{self.followers}", client, delay))
            followers.append((token, to))
        self.world.done_with(name, followers)

    @precondition(some_claimed)
    @rule(
        name=queues,
        chosen=picks,
        permanent=st.booleans(),
        error=st.sampled_from(("no", '\u00fcber "quoted"\n')),
    )
    def fail(self, name: str, chosen: list[int], permanent: bool, error: str) -> None:
        kind = "permanent" if permanent else "fail"
        self.world.give_back(name, self.tokens(name, chosen), kind, error, None)

    @precondition(some_claimed)
    @rule(name=queues, chosen=picks, delay=delays, kind=st.sampled_from(("requeue", "postpone", "queue")))
    def requeue_or_postpone(self, name: str, chosen: list[int], delay: float | None, kind: str) -> None:
        self.world.give_back(name, self.tokens(name, chosen), kind, "", delay)

    @precondition(some_claimed)
    @rule(name=queues, chosen=picks)
    def unclaim(self, name: str, chosen: list[int]) -> None:
        self.world.give_back(name, self.tokens(name, chosen), "interrupt", "", None)

    @precondition(some_claimed)
    @rule(name=queues, chosen=picks)
    def crash(self, name: str, chosen: list[int]) -> None:
        self.world.give_back(name, self.tokens(name, chosen), "crash", "it died", None)

    @precondition(some_claimed)
    @rule(name=queues, chosen=picks)
    def renew(self, name: str, chosen: list[int]) -> None:
        self.world.renew(name, self.tokens(name, chosen))

    @rule(name=queues, worker=workers, reason=st.sampled_from(Reason))
    def release_worker(self, name: str, worker: str, reason: Reason) -> None:
        self.world.release(name, worker, reason)

    @rule(name=queues, limit=st.sampled_from((1, 2, 100)))
    def reap(self, name: str, limit: int) -> None:
        self.world.reap(name, limit)

    @rule(name=queues, milliseconds=st.sampled_from((1, 999, 1000, 5000, 30000, 3700000)))
    def time_passes(self, name: str, milliseconds: int) -> None:
        self.world.models[name].now += milliseconds
        self.world.report_time()

    @rule(name=queues, milliseconds=st.sampled_from((6000, 100000)))
    def no_call_comes(self, name: str, milliseconds: int) -> None:
        self.world.outage(name, milliseconds)

    @rule(twice=st.booleans())
    def replies_are_lost(self, twice: bool) -> None:
        self.world.clock.sends_twice = twice

    @rule(name=queues, policy=policies)
    def set_policy(self, name: str, policy: Policy) -> None:
        self.world.set_policy(name, policy)

    @rule(name=queues, policy=policies, field=st.sampled_from(sorted(PolicyFields.__annotations__)))
    def update_policy(self, name: str, policy: Policy, field: str) -> None:
        self.world.update_policy(name, field, getattr(policy, field))

    @rule(name=queues, paused=st.booleans(), seconds=st.sampled_from((None, 1, 30)))
    def pause_or_resume(self, name: str, paused: bool, seconds: int | None) -> None:
        self.world.pause(name, paused=paused, seconds=seconds)

    @rule(name=queues, limit=changed_limits, seconds=st.sampled_from((None, 1, 30)))
    def change_a_limit(self, name: str, limit: Limit, seconds: int | None) -> None:
        self.world.set_limit(name, limit, seconds)

    @precondition(some_failed)
    @rule(name=queues, most=counts, min_age=ages, limit=counts, chunk=chunks)
    def requeue_failed(
        self, name: str, most: int | None, min_age: int, limit: int | None, chunk: int
    ) -> None:
        self.world.requeue_failed(name, most, min_age, limit, chunk)

    @precondition(some_failed)
    @rule(name=queues, chosen=filters, chunk=chunks, log=st.integers(0, 3))
    def remove_failed(self, name: str, chosen: Filters, chunk: int, log: int) -> None:
        self.world.remove_failed(name, chosen, chunk, log)

    @precondition(some_failed)
    @rule(name=queues, pick=st.integers(0, 5), remove=st.booleans())
    def one_failed_item(self, name: str, pick: int, remove: bool) -> None:
        self.world.failed_item(name, self.failed_name(name, pick), remove=remove)

    @precondition(some_failed)
    @rule(name=queues, chosen=filters, chunk=chunks)
    def drain_failed(self, name: str, chosen: Filters, chunk: int) -> None:
        self.world.drain_failed(name, chosen, chunk)

    @rule(name=queues, limit=chunks)
    def apply_failed_policy(self, name: str, limit: int) -> None:
        self.world.apply_failed_policy(name, limit)

    @rule(name=queues, count=st.integers(1, 6), offset=st.integers(0, 3))
    def look(self, name: str, count: int, offset: int) -> None:
        self.world.look(name, count, offset)

    @rule(name=queues, wanted=st.sampled_from(("x", "f1", "bare-1", "x#2")))
    def find(self, name: str, wanted: str) -> None:
        self.world.find(name, wanted)

    @rule(name=queues, worker=workers, wanted=st.sampled_from(("x", "y", "f1", "x#2")))
    def claim_item(self, name: str, worker: str, wanted: str) -> None:
        self.world.claim_item(name, worker, wanted)

    @rule(name=queues, worker=workers, pick=st.integers(0, 9), kind=st.sampled_from(GIVEN_BACK))
    def act_on_an_item(self, name: str, worker: str, pick: int, kind: str) -> None:
        model = self.world.models[name]
        waiting = [
            item.id for item in (*model.in_claim_order(), *(item for _, item in model.delayed)) if item.id
        ]
        if waiting:
            before = set(model.busy)
            self.world.claim_item(name, worker, waiting[pick % len(waiting)])
            claimed = [token for token in model.busy if token not in before]
            self.world.give_back(name, claimed, kind, "no", None)

    @rule(name=queues, client=clients.filter(bool))
    def flush_client(self, name: str, client: str) -> None:
        self.world.flush_client(name, client)

    @rule(name=queues, sure=st.booleans())
    def flush(self, name: str, sure: bool) -> None:
        if sure:
            self.world.flush(name)

    @rule(name=queues)
    def the_wake_token_is_lost(self, name: str) -> None:
        self.world.lose_wake(name)

    @rule(name=queues, worker=workers, count=st.integers(1, 4))
    def a_woken_worker_claims(self, name: str, worker: str, count: int) -> None:
        self.world.claim_woken(name, worker, count)

    @precondition(some_claimed)
    @rule(name=queues, chosen=picks, part=st.sampled_from(("lease", "item")))
    def a_key_loses_claims(self, name: str, chosen: list[int], part: str) -> None:
        self.world.lose(name, self.tokens(name, chosen), part)


class GiveBacks(RuleBasedStateMachine):
    """Claims of few items by several workers, given back apart: only what has to do with the order of main."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        super().__init__()
        self.world = World(runner, server, ("q",), WORKERS)

    def teardown(self) -> None:
        self.world.close()

    @invariant()
    def nothing_differs(self) -> None:
        self.world.check()

    @initialize(new=st.lists(of_priorities, min_size=4, max_size=12))
    def begin(self, new: list[New]) -> None:
        self.world.set_policy("q", EXACT)
        self.enqueue(new)

    @rule(new=st.lists(of_priorities, min_size=1, max_size=3))
    def enqueue(self, new: list[New]) -> None:
        self.world.enqueue({"q": new})

    @rule()
    def push_bare(self) -> None:
        self.world.push_bare("q", b"bare")

    @rule(worker=workers, count=st.integers(1, 3))
    def claim(self, worker: str, count: int) -> None:
        self.world.claim("q", worker, count)

    @rule(chosen=picks, kind=st.sampled_from(ENDED))
    def give_back(self, chosen: list[int], kind: str) -> None:
        held = list(self.world.models["q"].busy)
        tokens = [held[pick % len(held)] for pick in chosen if held]
        if kind == "done":
            self.world.done("q", tokens)
        elif tokens:
            self.world.give_back("q", tokens, kind, "", None)

    @rule(holders=st.lists(workers, min_size=2, max_size=4), order=st.permutations(range(4)))
    def claims_end_apart(self, holders: list[str], order: list[int]) -> None:
        known = set(self.world.models["q"].busy)
        for worker in holders:
            self.claim(worker, 1)
        claims = [token for token in self.world.models["q"].busy if token not in known]
        for place in order:
            if place < len(claims):
                self.world.give_back("q", [claims[place]], "interrupt", "", None)

    @rule(worker=workers, reason=st.sampled_from(Reason))
    def release_worker(self, worker: str, reason: Reason) -> None:
        self.world.release("q", worker, reason)


@pytest.mark.timeout(3600)  # 15,000 operations take minutes of a processor that is all theirs
def test_every_operation_does_what_the_model_says(server: Server, runner: asyncio.Runner) -> None:
    search(Operations, server, runner, examples=300)


def test_give_backs_restore_the_order_whichever_comes_first(server: Server, runner: asyncio.Runner) -> None:
    search(GiveBacks, server, runner, examples=60)
