"""What a call of one item costs the server with its socket: a bare command, the least script for it, and claimq's.

The least scripts store, count and keep their reply, and nothing else: they check neither the policy nor permissions,
know no clients, delays or limits, and do not recognize a repeated call. So no script that leases can cost less.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import claimq.blocking
from claimq import Claim
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.rivals import all_done, new_payloads

SIZE = 100
MOST = 1.6
"""40 us, where a bare command takes 25."""
_QUEUE = ("least:main", "least:stats", "least:calls", "least:busy", "least:leases")
_LEAST = {
    "enqueue": """
redis.call('LPUSH', KEYS[1], ARGV[2])
redis.call('HINCRBY', KEYS[2], 'enqueued', 1)
redis.call('HSET', KEYS[3], '0', ARGV[1])
return 'OK'""",
    "claim": """
local item, time = redis.call('RPOP', KEYS[1]), redis.call('TIME')
redis.call('HSET', KEYS[4], ARGV[1], item)
redis.call('ZADD', KEYS[5], time[1] * 1000 + 30000, ARGV[1])
redis.call('HINCRBY', KEYS[2], 'claimed', 1)
redis.call('HSET', KEYS[3], '0', ARGV[1])
return {'OK', item}""",
    "done": """
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('HINCRBY', KEYS[2], 'done', 1)
redis.call('HSET', KEYS[3], '0', ARGV[1])
return 'OK'""",
}


async def report(to: Report, bed: Bed, *, items: int, rounds: int) -> None:
    """The ways in turns, after a round to warm up. Raises WrongResult when items do not add up."""
    to.heading(
        f"Calls of one item, one after the other: {rounds} rounds of {items:,}, the server's main thread"
    )
    costs: dict[str, list[Cost]] = {}
    for number in range(rounds + 1):
        for name, cost in {**_commands(bed, items), **_least(bed, items), **_claimq(bed, items)}.items():
            if number:
                costs.setdefault(name, []).append(cost)
        bed.empty()
    for name, found in costs.items():
        spread = Spread.of([_us(cost) for cost in found])
        to.of_rounds(f"server_us_{name}", name.replace("_", " "), spread, unit="us")
    for verb in _LEAST:
        for kind, most in (("least_script", None), ("call", MOST)):
            to.of_rounds(
                f"{kind}_vs_command_{verb}",
                f"{verb}: {kind.replace('_', ' ')} against a bare LPUSH",
                ratios(costs[f"{verb}_{kind}"], costs["lpush"], _us),
                most=most,
                limit="what it stores (the least script), and what it checks",
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


def _least(bed: Bed, items: int) -> dict[str, Cost]:
    client: Any = bed.client()
    costs: dict[str, Cost] = {}
    for verb, text in _LEAST.items():
        numbers, sha = count(), client.script_load(text)

        def call(payload: bytes, sha: str = sha, numbers: "count[int]" = numbers) -> None:
            client.evalsha(sha, len(_QUEUE), *_QUEUE, f"bench/{next(numbers)}.abcDEF-1", payload)

        costs[f"{verb}_least_script"] = _measured(bed, items, call, new_payloads(items, SIZE))
    must(client.hget("least:stats", "done") == b"%d" % items, "the least scripts: an item is lost")
    must(client.exists("least:busy") == 0, "the least scripts: a claim is left")
    client.close()
    return costs


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
