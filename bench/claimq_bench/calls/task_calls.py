"""No-op tasks of an app that has both kinds of functions, at default settings: beside `consume` and lists."""

from dataclasses import dataclass, field
from typing import Any

import claimq
from claimq.tasks import App, Task
from claimq_bench.calls.consuming import of_default, of_lists
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import Lists

QUEUE = "tasks"


@dataclass
class _Rounds:
    """What each way costs, round by round."""

    lists: list[Cost] = field(default_factory=list[Cost])
    consume: list[Cost] = field(default_factory=list[Cost])
    coroutine: list[Cost] = field(default_factory=list[Cost])
    function: list[Cost] = field(default_factory=list[Cost])


class _Tasks:
    """An app with a task of each kind, which note the number that they are called with."""

    def __init__(self, url: str) -> None:
        self.app = App(QUEUE, url=url)
        self.calls: list[int] = []

        @self.app.task
        async def coroutine(number: int) -> None:
            self.calls.append(number)

        @self.app.task
        def function(number: int) -> None:
            self.calls.append(number)

        self.coroutine: Task[..., Any] = coroutine
        self.function: Task[..., Any] = function


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All figures of tasks."""
    items, rounds = plan.consume_items, plan.consume_rounds
    to.heading(f"claimq.tasks, no option set, an app with both kinds of tasks: {rounds} rounds of {items:,}")
    costs = await _measure(bed, items=items, rounds=rounds)
    to.of_costs("task_async", costs.coroutine)
    to.of_costs("task_function", costs.function)
    to.of_rounds(
        "task_async_vs_consume",
        "async tasks/s against consume with a coroutine",
        ratios(costs.coroutine, costs.consume, lambda cost: cost.rate),
        least=0.5,
        limit="reading the JSON of a call, finding its task, checking its arguments",
    )
    rate = Spread.of([cost.rate for cost in costs.function])
    to.of_rounds("task_function_per_second", "plain functions as tasks", rate, unit="/s")
    to.of_rounds(
        "task_function_vs_lists_b100",
        "the same against lists in pipelines of 100",
        ratios(costs.function, costs.lists, lambda cost: cost.rate),
        least=0.2,
        limit="Python's time for an item",
    )


async def _measure(bed: Bed, *, items: int, rounds: int) -> _Rounds:
    """The ways in turns. Raises WrongResult when items do not add up."""
    results, lists, tasks = _Rounds(), Lists(bed.client()), _Tasks(bed.url)
    async with claimq.connect(bed.url) as server:
        for number in range(rounds + 1):
            costs = (
                (results.lists, await of_lists(bed, lists, items)),
                (results.consume, await of_default(bed, server.queue("consume"), items)),
                (results.coroutine, await _of_task(bed, server, tasks, tasks.coroutine, items)),
                (results.function, await _of_task(bed, server, tasks, tasks.function, items)),
            )
            if number:  # the first round warms up
                for way, cost in costs:
                    way.append(cost)
    bed.empty()
    return results


async def _of_task(bed: Bed, server: claimq.Server, tasks: _Tasks, task: Task[..., Any], items: int) -> Cost:
    tasks.calls.clear()
    await server.queue(QUEUE).enqueue_many([task.item(number) for number in range(items)])
    with bed.measured(items) as cost:
        await tasks.app.run_async(return_when_empty=True)
    must(sorted(tasks.calls) == [*range(items)], "tasks: an item is lost or repeated")
    return cost
