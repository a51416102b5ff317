"""Operations and policies at random, for the tests of properties, and how these search.

CLAIMQ_PROPERTY_EXAMPLES=5000 searches longer, CLAIMQ_PROPERTY_SEED=2 elsewhere. CLAIMQ_PROPERTY_SHRINK=no shows the
first failure as it was found, at once.
"""

import asyncio
import os
from collections.abc import Callable
from typing import cast

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from claimq import Limit
from claimq.policy import FailedPolicy, Match, MaxWaiting, OnExpiry, Policy, RetryDelay
from claimq.waiting.fairness import Fairness
from testkit.checkers.lockstep import New
from testkit.checkers.lockstep_failed import Filters
from testkit.plugin import FLAVOURS
from testkit.servers.server import Server

QUEUES, WORKERS = ("q", "r"), ("w1", "w2", "w3")
queues, workers = st.sampled_from(("q", "q", "q", "r")), st.sampled_from(WORKERS)
clients = st.sampled_from((None, None, "a", "b", "c"))
own_ids = st.one_of(st.none(), st.sampled_from(("x", "y", "x#2")))
delays = st.sampled_from((None, None, None, 0.0, 1.0, 5.0))
payloads = st.one_of(st.binary(max_size=12), st.just(b"l" * 65), st.just(b"cq1 no header\nat all"))
items: st.SearchStrategy[New] = st.tuples(payloads, own_ids, clients, delays)
lengths = st.sampled_from((b"x", b"x", b"3 b", b"4 by"))  # the length decides on the priority
of_priorities: st.SearchStrategy[New] = st.tuples(lengths, st.none(), clients, st.none())
picks = st.lists(st.integers(0, 9), min_size=1, max_size=6)
ENDED = ("interrupt", "interrupt", "interrupt", "requeue", "crash", "done")
GIVEN_BACK = ("fail", "permanent", "drop", "crash", "requeue", "postpone", "interrupt")
chunks = st.integers(1, 3)
EXACT = Policy(
    retry_delay=RetryDelay(jitter=0), fairness=Fairness(by="count")
)  # the model knows dues and turns
ages, counts = st.sampled_from((0, 0, 1000, 5000)), st.one_of(st.none(), st.integers(1, 2))
filters = st.builds(
    Filters, min_age=st.none() | ages, least=st.none() | st.integers(0, 2), limit=counts, either=st.booleans()
)


@st.composite
def failed_policies(draw: st.DrawFn) -> FailedPolicy:
    """A fail count stands with the age that it needs."""
    sent, removed = draw(st.sampled_from((None, 0.0, 2.0))), draw(st.sampled_from((None, 0.0, 5.0)))
    match = draw(st.sampled_from(Match))
    return FailedPolicy(
        requeue_min_age=sent,
        requeue_max_given_up_count=None if sent is None else draw(counts),
        remove_min_age=removed,
        remove_min_given_up_count=None if removed is None and match is Match.BOTH else draw(counts),
        max_items=draw(st.none() | st.integers(1, 3)),
        remove_match=match,
    )


limits = st.sampled_from((
    (), (), (), (Limit("n", busy=2),), (Limit("api", rate="9/m"),), (Limit("api", rate="2/s", burst=4),),
    (Limit("api", rate="2/s", burst=2), Limit("n", busy=3), Limit("api-2", rate="100/h", burst=9)),
    (Limit("each", busy=1, per="client"),), (Limit("each", busy=2, per="client"), Limit("n", busy=4)),
    (Limit("calls", rate="9/m", burst=2, per="client"), Limit("each", busy=3, per="client")),
    (Limit("api", rate="2/s", burst=4, unit="cost"),),
    (Limit("calls", rate="9/s", burst=9, per="client", unit="cost"),), (Limit("total", busy=5, unit="cost"),),
))  # fmt: skip
changed_limits = st.sampled_from(
    (
        Limit("n", busy=1),
        Limit("n", busy=4),
        Limit("api", rate="1/s", burst=3),
        Limit("api", rate="30/m"),
        Limit("each", busy=2, per="client"),
        Limit("calls", rate="1/s", burst=3, per="client"),
        Limit("api", rate="1/s", burst=3, unit="cost"),
        Limit("calls", rate="1/s", burst=2, per="client", unit="cost"),
        Limit("total", busy=3, unit="cost"),
        Limit("total", busy=8, unit="cost"),
    )
)
policies = st.builds(
    Policy,
    requeue_limit=st.integers(0, 3),
    max_postponed=st.integers(0, 3),
    busy_expiry=st.sampled_from((1.0, 10.0, 30.0)),
    on_expiry=st.sampled_from(OnExpiry),
    retry_delay=st.sampled_from((0.0, 0.5, 3.0)).map(lambda first: RetryDelay(first, max=4.0, jitter=0)),
    max_payload=st.sampled_from((64, 1024)),
    max_waiting=st.builds(MaxWaiting, *map(st.sampled_from, ((None, 3, 9), (None, None, 2), (None, 10**9)))),
    id_window=st.sampled_from((1.0, 3600.0)),
    failed=failed_policies(),
    fairness=st.sampled_from((EXACT.fairness, EXACT.fairness, Fairness(by="time"))),
    limits=limits,
)

EXAMPLES = int(os.environ.get("CLAIMQ_PROPERTY_EXAMPLES", "0"))
SEED = int(os.environ.get("CLAIMQ_PROPERTY_SEED", "1"))
SHRINKS = os.environ.get("CLAIMQ_PROPERTY_SHRINK") != "no"


def search(
    machine: Callable[[asyncio.Runner, Server], RuleBasedStateMachine],
    server: Server,
    runner: asyncio.Runner,
    *,
    examples: int,
    steps: int = 50,
    shrinks: bool = SHRINKS,
) -> None:
    """Runs a machine on the server. ``examples``: unless the environment names a number; ``shrinks``: whether a failure
    is made smaller first."""
    factory = seed(SEED + FLAVOURS.index(server.flavour))(lambda: machine(runner, server))
    run_state_machine_as_test(
        cast("type[RuleBasedStateMachine]", factory),
        settings=settings(
            stateful_step_count=steps,
            max_examples=EXAMPLES or examples,
            derandomize=False,  # which a machine made in a test would not heed; SEED does it
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink] if shrinks
            else [Phase.generate],
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=[
                HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large
            ],
        ),
    )  # fmt: skip
