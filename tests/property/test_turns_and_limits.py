"""Turns and limits of clients that change while few items are claimed, given back and lost, against a plain model.

A failure is shown as it was found.
"""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from claimq import Limit
from claimq.waiting.fairness import Fairness
from testkit.checkers.lockstep import CLOSINGS, New, World
from testkit.properties.any_operations import ENDED, EXACT, WORKERS, clients, picks, search, workers
from testkit.servers.server import Server

of_costs = st.sampled_from((b"x", b"x", b"x" * 6, b"x" * 21))  # the length decides on the cost: 1, 2 or 5
items: st.SearchStrategy[list[New]] = st.lists(
    st.tuples(of_costs, st.none(), st.sampled_from((None, "a", "b", "c")), st.none()),
    min_size=1,
    max_size=6,
)
BOUND, OTHER = Limit("each", busy=1, per="client"), Limit("each", busy=3, per="client")
RATE = Limit("calls", rate="9/m", burst=3, per="client")
COSTS = Limit("calls", rate="9/m", burst=5, per="client", unit="cost")
QUICK = Limit("calls", rate="2/s", burst=9, per="client", unit="cost")
ALL = Limit("all", rate="30/m", burst=8, unit="cost")
WEIGHTS = Limit("weights", busy=6, per="client", unit="cost")
TOTAL, LESS = Limit("total", busy=9, unit="cost"), Limit("total", busy=4, unit="cost")
limits = st.sampled_from((
    (), (BOUND,), (BOUND,), (OTHER,), (RATE,), (RATE, OTHER), (Limit("n", busy=3), BOUND),
    (COSTS,), (COSTS,), (QUICK,), (ALL,), (ALL,), (ALL, COSTS, BOUND),
    (WEIGHTS,), (WEIGHTS,), (WEIGHTS, COSTS, OTHER), (TOTAL,), (TOTAL,), (LESS,), (TOTAL, WEIGHTS, ALL),
))  # fmt: skip


class Operations(RuleBasedStateMachine):
    """Plain items, which a claim by time takes as it plans its turns."""

    def __init__(self, runner: asyncio.Runner, server: Server) -> None:
        super().__init__()
        self.world = World(runner, server, ("q",), WORKERS)
        self.model = self.world.models["q"]

    def teardown(self) -> None:
        self.world.close()

    @invariant()
    def nothing_differs(self) -> None:
        self.world.check()

    def tokens(self, chosen: list[int]) -> list[str]:
        """Of live claims."""
        held = list(self.model.busy)
        return [held[pick % len(held)] for pick in chosen if held]

    @initialize(new=items, limits=limits, by=st.sampled_from(("count", "time")))
    def begin(self, new: list[New], limits: tuple[Limit, ...], by: str) -> None:
        self.set_policy(limits, by)
        self.enqueue(new)

    @rule(new=items)
    def enqueue(self, new: list[New]) -> None:
        self.world.enqueue({"q": new})

    @rule(worker=workers, count=st.integers(1, 6))
    def claim(self, worker: str, count: int) -> None:
        self.world.claim("q", worker, count)

    @rule(worker=workers, count=st.integers(1, 6))
    def claim_give_back_and_claim(self, worker: str, count: int) -> None:
        """What comes back at once may start at once."""
        before = set(self.model.busy)
        self.claim(worker, count)
        if claims := [token for token in self.model.busy if token not in before]:
            self.world.give_back("q", claims, "interrupt", "", None)
            self.claim(worker, count)

    @rule(worker=workers, chosen=picks, count=st.integers(1, 6))
    def done_and_claim(self, worker: str, chosen: list[int], count: int) -> None:
        self.world.done_and_claim("q", worker, self.tokens(chosen), count)

    @rule(chosen=picks, kind=st.sampled_from(ENDED))
    def give_back(self, chosen: list[int], kind: str) -> None:
        if kind == "done":
            self.world.done("q", self.tokens(chosen))
        elif tokens := self.tokens(chosen):
            self.world.give_back("q", tokens, kind, "", None)

    @rule(
        chosen=picks,
        unit=st.sampled_from(CLOSINGS),
        delay=st.sampled_from((1, 6, 90_000)),
        by_hand=st.sampled_from((0, 0, 5)),
    )
    def close(self, chosen: list[int], unit: str, delay: int, by_hand: int) -> None:
        """What is closed may be paused by hand before."""
        tokens = self.tokens(chosen)
        client = self.model.busy[tokens[0]].item.client if tokens and unit == "client" else None
        if tokens and client != "-":
            if by_hand:
                self.world.pause("q", paused=True, seconds=by_hand, client=client)
            self.world.give_back("q", tokens, unit, "", delay)

    @rule(paused=st.booleans(), seconds=st.sampled_from((None, 5, 30)), client=clients)
    def pause_or_resume(self, paused: bool, seconds: int | None, client: str | None) -> None:
        self.world.pause("q", paused=paused, seconds=seconds, client=client)

    @rule(worker=workers, pick=st.integers(0, 9))
    def claim_item(self, worker: str, pick: int) -> None:
        if waiting := self.model.in_claim_order():
            self.world.claim_item("q", worker, waiting[pick % len(waiting)].id)

    @rule(limits=limits, by=st.sampled_from(("count", "time")))
    def set_policy(self, limits: tuple[Limit, ...], by: str) -> None:
        self.world.set_policy("q", replace(EXACT, limits=limits, fairness=Fairness(by=by)))

    @rule(milliseconds=st.sampled_from((1, 1000, 5000, 30000)))
    def time_passes(self, milliseconds: int) -> None:
        self.model.now += milliseconds
        self.world.report_time()

    @rule(chosen=picks, part=st.sampled_from(("lease", "item")))
    def a_key_loses_claims(self, chosen: list[int], part: str) -> None:
        self.world.lose("q", self.tokens(chosen), part)

    @rule(limit=st.sampled_from((1, 100)))
    def reap(self, limit: int) -> None:
        self.world.reap("q", limit)


@pytest.mark.timeout(3600)
def test_turns_and_limits_of_clients_are_those_of_the_model(server: Server, runner: asyncio.Runner) -> None:
    search(Operations, server, runner, examples=80, shrinks=False)
