"""How long the item of a killed process waits for another process: from SIGKILL to the claim, by the server's clock."""

import asyncio
import multiprocessing

import claimq
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Spread, must
from claimq_bench.plan import Plan

LONGEST = 60.0
"""Seconds, for each step."""


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """Adds the figure, of kills one after the other."""
    to.heading(f"A process that consumes is killed while another one waits for items: {plan.reap_runs} runs")
    took = Spread.of([await _measure(bed) for _ in range(plan.reap_runs)])
    to.of_rounds(
        "library_kill_to_reclaim_s",
        "from the kill to the next claim",
        took,
        unit="s",
        most=6.0,
        limit="two looks 3 s apart, the first one within 2 s",
    )


async def _measure(bed: Bed) -> float:
    async with claimq.connect(bed.url) as server:
        queue = server.queue("kill")
        await queue.enqueue("x")
        process = multiprocessing.get_context("spawn").Process(target=_hold, args=(bed.url,), daemon=True)
        process.start()
        try:
            async with asyncio.timeout(LONGEST):
                while not bed.control.zcard("cq:{kill}:present") or not await queue.length("busy"):  # noqa: ASYNC110 - another process sets it
                    await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(queue.claim(wait=LONGEST))
            await asyncio.sleep(2)  # it waits as an idle worker does
            seconds, micro = bed.control.time()
        finally:
            process.kill()
            process.join(LONGEST)
        (claim,) = await waiting
        must(claim.item.crash_count == 1, "a killed process: its item does not count the crash")
        await queue.done(claim)
    bed.empty()
    return claim.claimed_at - seconds - micro / 1e6


def _hold(url: str) -> None:
    """A process that claims the item and does not end."""

    async def consume() -> None:
        async with claimq.connect(url) as server:
            await server.queue("kill").consume(lambda _: asyncio.sleep(3600))

    asyncio.run(consume())
