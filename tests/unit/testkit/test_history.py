"""The checker of histories: it believes good ones, and finds each kind of broken promise in bad ones."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.checkers.history import Audit, Event, Finding, Kill, check
from testkit.checkers.model import QueueModel
from testkit.checkers.model_item import Order
from testkit.queues.retries import retrying_at_once

LIMIT = 2


class Run:
    """A correct queue (the plain model) used by processes that may die after any call, before they write its end."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.queue = QueueModel("q", 10**12)
        self.queue.policy = retrying_at_once(requeue_limit=LIMIT, busy_expiry=1.0)
        self.events: list[Event] = []
        self.kills: list[Kill] = []
        self.hands: dict[str, list[tuple[str, str]]] = {}
        self.clock = 0.0
        self.born = 0

    def write(self, process: str, op: str, phase: str, rows: list[tuple[object, ...]]) -> None:
        self.clock += 0.001
        self.events.append(Event(process, self.clock, op, phase, tuple(rows)))

    def dies(self, process: str, kind: str) -> bool:
        """Before it writes what its call did."""
        if self.chance.random() > 0.1:
            return False
        self.clock += 0.001
        self.kills.append(Kill(kind, process, self.clock))
        self.hands.pop(process, None)
        return True

    def enqueue(self, process: str) -> None:
        self.born += 1
        item = f"i{self.born}"
        self.write(process, "enqueue", "begin", [(item,)])
        if self.chance.random() < 0.95:
            self.queue.enqueue([Order(item.encode(), item)])
        elif self.dies(process, "producer"):
            return
        else:
            self.queue.enqueue([Order(item.encode(), item)])
        if not self.dies(process, "producer"):
            self.write(process, "enqueue", "end", [(item,)])

    def claim(self, process: str) -> None:
        self.write(process, "claim", "begin", [])
        got = self.queue.claim(process, self.chance.randint(1, 3), "AAAAAAAA")
        if self.dies(process, "worker"):
            return
        rows: list[tuple[object, ...]] = [(item.id, token, item.count("requeues")) for token, item in got]
        self.write(process, "claim", "end", rows)
        self.hands.setdefault(process, []).extend((item.id, token) for token, item in got)

    def settle(self, process: str) -> None:
        held = self.hands.get(process, [])
        op = self.chance.choice(("done", "done", "fail", "unclaim", "forget"))
        self.hands[process] = []
        if op == "forget" or not held:
            return
        self.write(process, op, "begin", [*held])
        tokens = [token for _, token in held]
        if op == "done":
            verdicts = self.queue.done(tokens)
        else:
            kind = {"fail": "fail", "unclaim": "interrupt"}[op]
            verdicts = [verdict for verdict, _ in self.queue.give_back(tokens, kind, "no")]
        if not self.dies(process, "worker"):
            rows = [(item, token, verdict) for (item, token), verdict in zip(held, verdicts, strict=True)]
            self.write(process, op, "end", [*rows])

    def go(self, steps: int) -> None:
        for _ in range(steps):
            process = self.chance.choice(("w1", "w2", "w3"))
            self.chance.choice((self.enqueue, self.claim, self.settle))(process)
            self.queue.now += self.chance.choice((1, 1, 400))
        for _ in range(10 * steps):
            if not (self.queue.waiting() or self.queue.busy):
                return
            self.queue.now += 1000
            self.claim("w9")
            self.settle("w9")

    def audit(self) -> Audit:
        failed = [(item.id, item.count("requeues")) for _, item in self.queue.failed.values()]
        waiting = [item.id for items in self.queue.lists.values() for item in items]
        return Audit(
            failed, [*waiting, *(one.item.id for one in self.queue.busy.values())], dict(self.queue.counts)
        )

    def check(self, least_hits: dict[str, int] | None = None, least_items: int = 0) -> Finding:
        audit = self.audit()
        audit.counters.setdefault("done", 0)
        audit.counters.setdefault("enqueued", 0)
        return judged(self.events, audit, self.kills, least_hits or {}, least_items)


def judged(
    events: list[Event],
    audit: Audit,
    kills: list[Kill] | None = None,
    least_hits: dict[str, int] | None = None,
    least_items: int = 0,
) -> Finding:
    return check(
        events, audit, kills or [], requeue_limit=LIMIT, least_hits=least_hits or {}, least_items=least_items
    )


@given(st.integers(0, 10**9), st.integers(1, 150))
def test_what_a_correct_queue_does_is_never_called_invalid(seed: int, steps: int) -> None:
    run = Run(seed)
    run.go(steps)
    finding = run.check()
    assert finding.verdict != "invalid", finding.problems


def story(*lines: str) -> list[Event]:
    """Events from lines like "w1 claim end a w1/1 0": process, op, phase, then the fields of one row."""
    events: list[Event] = []
    for at, line in enumerate(lines):
        process, op, phase, *row = line.split()
        fields = tuple(int(word) if word.isdigit() else word for word in row)
        events.append(Event(process, float(at), op, phase, (fields,) if fields else ()))
    return events


GOOD = (
    "p1 enqueue begin a",
    "p1 enqueue end a",
    "w1 claim begin",
    "w1 claim end a w1/1 0",
    "w1 done begin a w1/1",
    "w1 done end a w1/1 done",
)
ONE_DONE = Audit(counters={"enqueued": 1, "done": 1})


def test_a_good_story_is_valid() -> None:
    assert judged(story(*GOOD), ONE_DONE).verdict == "valid"


BAD: dict[str, tuple[tuple[str, ...], Audit]] = {
    "a is lost": (GOOD[:4], Audit(counters={"enqueued": 1, "done": 0})),
    "b was never enqueued": ((*GOOD, "w1 claim begin", "w1 claim end b w1/2 0"), ONE_DONE),
    "a ended more than once: ['done by claim 1', 'done by claim 2']": (
        (*GOOD, "w2 claim begin", "w2 claim end a w2/2 1", "w2 done begin a w2/2", "w2 done end a w2/2 done"),
        replace(ONE_DONE, counters={"enqueued": 1, "done": 2}),
    ),
    "a ended more than once: ['done by claim 1', 'in the queue']": (
        GOOD, Audit(remaining=["a"], counters={"enqueued": 2, "done": 1}),
    ),
    "a was done by claim 1, and claimed again by 2": ((*GOOD, "w2 claim begin", "w2 claim end a w2/2 1"), ONE_DONE),
    "claim 1 ended more than once: ['done', 'requeued']": (
        (*GOOD, "r1 expired begin", "r1 expired end ? w1/1 requeued"), ONE_DONE,
    ),
    "claim 1 was given to ['a', 'b']": (
        (*GOOD, "p1 enqueue begin b", "p1 enqueue end b", "w2 claim begin", "w2 claim end b w1/1 0"), ONE_DONE,
    ),
    "w1 was given w1/1 after claim 1": (
        (*GOOD, "p1 enqueue begin b", "p1 enqueue end b", "w1 claim begin", "w1 claim end b w1/1 0"), ONE_DONE,
    ),
    "a was delivered 4 times": (
        (
            *GOOD[:2],
            *(line for n in (1, 2, 3, 4) for line in ("w1 claim begin", f"w1 claim end a w1/{n} {min(n - 1, 2)}")),
        ),
        Audit(failed=[("a", LIMIT)], counters={"enqueued": 1, "done": 0}),
    ),
    "the requeue counts of a were [1, 0]": (
        (*GOOD[:2], "w1 claim begin", "w1 claim end a w1/1 1", "w1 claim begin", "w1 claim end a w1/2 0"),
        Audit(failed=[("a", LIMIT)], counters={"enqueued": 1, "done": 0}),
    ),
    "a failed with 1 requeues": (GOOD[:2], Audit(failed=[("a", 1)], counters={"enqueued": 1, "done": 0})),
    "1 are counted as done, and 0 are known": (GOOD[:2], Audit(remaining=["a"], counters={"enqueued": 2, "done": 1})),
    "3 came": (GOOD, Audit(counters={"enqueued": 3, "done": 1})),
    "0 are counted as enqueued; 1 to 1 were": (GOOD, Audit(counters={"enqueued": 0, "done": 1})),
}  # fmt: skip


@pytest.mark.parametrize("problem", BAD)
def test_each_broken_promise_is_found(problem: str) -> None:
    lines, audit = BAD[problem]
    finding = judged(story(*lines), audit)
    assert finding.verdict == "invalid"
    assert any(
        problem in said or said.startswith(problem.replace("a is lost", "a was stored"))
        for said in finding.problems
    )


def test_an_item_whose_done_is_not_known_is_not_lost() -> None:
    assert judged(story(*GOOD[:5]), ONE_DONE).verdict == "valid"


def test_an_item_whose_enqueue_is_not_known_may_be_there_or_not() -> None:
    assert judged(story(GOOD[0]), Audit(counters={"enqueued": 0, "done": 0})).verdict == "valid"
    there = Audit(remaining=["a"], counters={"enqueued": 1, "done": 0})
    assert judged(story(GOOD[0]), there).problems == ["1 items remain"]


def test_a_run_that_hit_nothing_proves_nothing() -> None:
    between_calls = [Kill("producer", "p1", 1.5)]
    finding = judged(story(*GOOD), ONE_DONE, between_calls, {"producer": 1})
    assert (finding.verdict, finding.problems) == ("unknown", ["producer was hit 0 times, not 1"])
    in_a_call = [Kill("producer", "p1", 0.5)]
    assert judged(story(*GOOD), ONE_DONE, in_a_call, {"producer": 1}).verdict == "valid"


def test_a_worker_is_hit_too_when_it_has_claims_in_flight() -> None:
    in_flight = [Kill("worker", "w1", 3.5)]
    assert judged(
        story(*GOOD[:4]), Audit(remaining=["a"], counters={"enqueued": 1, "done": 0}), in_flight
    ).hits == {"worker": 1}


def test_a_kill_that_needs_items_is_no_hit_while_its_process_waits_for_some() -> None:
    unfinished = Audit(remaining=["a"], counters={"enqueued": 1, "done": 0})
    waits, has_one, in_the_verdict, after = (
        Kill("stream", "w1", at, with_items=True) for at in (2.5, 3.5, 4.5, 5.5)
    )
    assert not judged(story(*GOOD[:4]), unfinished, [waits]).hits
    assert judged(story(*GOOD[:4]), unfinished, [has_one]).hits == {"stream": 1}
    assert judged(story(*GOOD), ONE_DONE, [has_one, in_the_verdict, after]).hits == {"stream": 2}


def test_too_few_items_prove_nothing() -> None:
    finding = judged(story(*GOOD), ONE_DONE, least_items=2)
    assert (finding.verdict, finding.problems) == ("unknown", ["1 items were stored, not 2"])


def test_a_claim_that_was_live_when_the_server_was_killed_counts_as_no_delivery() -> None:
    often = (
        *GOOD[:2],
        *(
            line
            for n in (1, 2, 3, 4)
            for line in ("w1 claim begin", f"w1 claim end a w1/{n} {min(n - 1, 2)}")
        ),
    )
    events, audit = story(*often), Audit(failed=[("a", LIMIT)], counters={"enqueued": 1, "done": 0})
    second = next(event.at for event in events if event.rows and event.rows[0][1:2] == ("w1/2",))
    delivered = "a was delivered 4 times"
    assert any(delivered in problem for problem in judged(events, audit).problems)
    during = judged(events, audit, [Kill("server", "", second, back=second)])
    assert not any(delivered in problem for problem in during.problems)
    before, back = events[0].at - 60, events[0].at - 2
    earlier = judged(events, audit, [Kill("server", "", before, back=back)])
    assert any(delivered in problem for problem in earlier.problems)
    slow = judged(events, audit, [Kill("server", "", before, back=second)])
    assert not any(delivered in problem for problem in slow.problems), "a start may take long"


OFTEN_DELIVERED = (
    *GOOD[:2],
    *(
        line
        for n in (1, 2, 3, 4)
        for line in ("a1 claim begin", f"a1 claim end a s1.2/{n} {min(n - 1, 2)}", "p1 enqueue begin a")
    ),
)
"""Claims 1 to 4 of an item are known at 3, 6, 9 and 12."""


def is_too_often(drain: Kill, *more: str) -> bool:
    """Whether more deliveries than the limit allows are left when this drain came in between."""
    audit = Audit(failed=[("a", LIMIT)], counters={"enqueued": 1, "done": 0})
    problems = judged(story(*OFTEN_DELIVERED, *more), audit, [drain]).problems
    return any("a was delivered 4 times" in problem for problem in problems)


@pytest.mark.parametrize("drained", ["s1.2", "s1.3"])
def test_a_claim_in_progress_when_a_drain_began_counts_as_no_delivery(drained: str) -> None:
    assert not is_too_often(Kill("drain", "a1", 5.5, drained=drained)), "also of one that took the claim over"
    assert not is_too_often(Kill("drain", "a1", 99, drained=drained)), "the last claim has no known end"


@pytest.mark.parametrize("drained", ["", "s1.1", "s2.2", "s.2"])
def test_the_drain_of_another_sidecar_or_of_an_earlier_life_changes_nothing(drained: str) -> None:
    assert is_too_often(Kill("drain", "a1", 5.5, drained=drained))


def test_a_drain_does_not_undo_ends_of_claims_that_are_known() -> None:
    ends = [f"r1 expired end ? s1.2/{n} requeued" for n in (1, 2, 3)] + ["r1 expired end ? s1.2/4 failed"]
    assert is_too_often(Kill("drain", "a1", 5.5, drained="s1.2"), *ends)


def test_claims_that_had_ended_before_a_drain_count() -> None:
    fifth = ("a1 claim begin", "a1 claim end a s1.2/5 2")
    assert is_too_often(Kill("drain", "a1", 15.5, drained="s1.2"), *fifth), "the four before it count"
    assert not is_too_often(Kill("drain", "a1", 14.5, drained="s1.2"), *fifth), "the fourth was in progress"


def test_a_fault_of_an_app_hits_whichever_life_the_app_has() -> None:
    events = story("a1#2 claim begin", "a1#2 claim end", "p1 enqueue begin a", "p1 enqueue end a")
    audit = Audit(counters={"enqueued": 1, "done": 0}, remaining=["a"])
    at_app, at_other, between = Kill("cut", "a1", 0.5), Kill("cut", "a2", 0.5), Kill("cut", "a1", 1.5)
    assert judged(events, audit, [at_app, at_other, between]).hits == {"cut": 1}
    known = [replace(at_app, came_in_the_middle=False), replace(between, came_in_the_middle=True)]
    assert judged(events, audit, known).hits == {"cut": 1}
