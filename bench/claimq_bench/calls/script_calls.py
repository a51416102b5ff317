"""What a call of one item costs the server with its socket: a bare command, and claimq's enqueue, claim and done."""

from collections.abc import Callable, Iterable
from typing import Any

import claimq.blocking
from claimq import Claim
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import all_done, new_payloads

SIZE = 100
VERBS = ("enqueue", "claim", "done")


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """The ways in turns, after a round to warm up. Raises WrongResult when items do not add up."""
    items, rounds = plan.single_items // 5, plan.consume_rounds
    to.heading(
        f"Calls of one item, one after the other: {rounds} rounds of {items:,}, the server's main thread"
    )
    costs: dict[str, list[Cost]] = {}
    for number in range(rounds + 1):
        for name, cost in {**_commands(bed, items), **_claimq(bed, items)}.items():
            if number:
                costs.setdefault(name, []).append(cost)
        bed.empty()
    for name, found in costs.items():
        spread = Spread.of([_us(cost) for cost in found])
        to.of_rounds(f"server_us_{name}", name.replace("_", " "), spread, unit="us")
    for verb in VERBS:
        to.of_rounds(
            f"call_vs_command_{verb}",
            f"{verb}: a call against a bare LPUSH",
            ratios(costs[f"{verb}_call"], costs["lpush"], _us),
        )


def _us(cost: Cost) -> float:
    return cost.server_main_us


def _commands(bed: Bed, items: int) -> dict[str, Cost]:
    client: Any = bed.client()
    cost = _measured(
        bed, items, lambda payload: client.lpush("raw:calls", payload), new_payloads(items, SIZE)
    )
    must(client.llen("raw:calls") == items, "lists: an item is lost")
    client.close()
    return {"lpush": cost}


def _claimq(bed: Bed, items: int) -> dict[str, Cost]:
    with claimq.blocking.connect(bed.url) as server:
        queue = server.queue("calls", worker="bench")
        claims: list[Claim] = []
        costs = {
            "enqueue_call": _measured(bed, items, queue.enqueue, new_payloads(items, SIZE)),
            "claim_call": _measured(bed, items, lambda _: claims.extend(queue.claim()), range(items)),
            "done_call": _measured(
                bed, items, lambda claim: must(all_done(queue.done(claim)), "lost"), claims
            ),
        }
        must(len(claims) == items, "claimq: an item is lost")
        must(sum(queue.lengths().values()) == 0, "claimq: an item is left over")
    return costs


def _measured(bed: Bed, items: int, call: Callable[[Any], object], values: Iterable[object]) -> Cost:
    with bed.measured(items) as cost:
        for value in values:
            call(value)
    return cost
