"""The full cycle (enqueue, claim, done) of the three rivals, in turns on one server."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import claimq
from claimq_bench.figures import Report, shown
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.plan import Plan, Setting
from claimq_bench.rivals import Library, Lists, Rival, Streams, new_payloads


@dataclass
class Row:
    """What the rivals cost at one setting, round by round: adding items, working them off."""

    setting: Setting
    enqueue: dict[str, list[Cost]] = field(default_factory=dict[str, list[Cost]])
    work_off: dict[str, list[Cost]] = field(default_factory=dict[str, list[Cost]])

    def cycles(self, rival: str) -> list[Cost]:
        """Both together, for as many items as went through."""
        return [a.then(b) for a, b in zip(self.enqueue[rival], self.work_off[rival], strict=True)]

    def server_against(self, other: str) -> Spread:
        """claimq's server time for an item over the other's."""
        return ratios(self.cycles("claimq"), self.cycles(other), lambda cost: cost.server_us)

    def rate(self, rival: str) -> Spread:
        """Items per second, full cycle, of one process that does one thing after the other."""
        return Spread.of([cost.rate for cost in self.cycles(rival)])


async def measure(bed: Bed, setting: Setting, *, with_one_push: bool = False) -> Row:
    """Runs the rivals in turns (the first one changes with the round). Raises WrongResult when items do not add up."""
    async with claimq.connect(bed.url) as server:
        rivals: list[Rival] = [
            Lists(bed.client()),
            Streams(bed),
            Library(server.queue("cycle", worker="bench")),
        ]
        if with_one_push:
            rivals.insert(1, Lists(bed.client(), one_push=True))
        row = Row(setting)
        for rival in rivals:
            await _warm_up(rival, setting)
        for number in range(setting.rounds):
            first = number % len(rivals)
            for rival in rivals[first:] + rivals[:first]:
                await _round(bed, rival, row)
    bed.empty()
    return row


async def _warm_up(rival: Rival, setting: Setting) -> None:
    payloads = new_payloads(setting.batch * 2, setting.size)
    await rival.enqueue(payloads, setting.batch)
    _check(rival, await rival.work_off(len(payloads), setting.batch), payloads)


async def _round(bed: Bed, rival: Rival, row: Row) -> None:
    setting = row.setting
    payloads = new_payloads(setting.items, setting.size)
    with bed.measured(setting.items) as adding:
        await rival.enqueue(payloads, setting.batch)
    with bed.measured(setting.items) as working:
        took = await rival.work_off(setting.items, setting.batch)
    _check(rival, took, payloads)
    must(await rival.left() == 0, f"{rival.name}: items are left over")
    row.enqueue.setdefault(rival.name, []).append(adding)
    row.work_off.setdefault(rival.name, []).append(working)


def _check(rival: Rival, took: Sequence[bytes], payloads: Sequence[bytes]) -> None:
    must(
        list(took) == list(payloads),
        f"{rival.name}: {len(payloads)} items went in, others or in other order came out",
    )


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All figures of the cycle, the main row also on a server without persistence."""
    for setting in plan.settings:
        is_main = setting == plan.settings[0]
        row = await measure(bed, setting, with_one_push=is_main)
        _show_row(to, row, "")
        _add_ratios(to, row, "")
        if is_main:
            _add_rates(to, row)
    volatile = Bed(persistent=False)
    try:
        row = await measure(volatile, plan.settings[0], with_one_push=True)
    finally:
        volatile.close()
    _show_row(to, row, ", server without persistence")
    _add_ratios(to, row, "_volatile")


def _show_row(to: Report, row: Row, where: str) -> None:
    setting = row.setting
    to.heading(
        f"Full cycle (enqueue, claim, done), batches of {setting.batch}, {setting.size:,} bytes{where}: "
        f"{setting.rounds} rounds of {setting.items:,} items"
    )
    to.note(f"{'':<26}{'items/s':>9}{'server us/item':>17}{'(enqueue + rest)':>18}{'client us/item':>17}")
    for rival in row.enqueue:
        middle = [
            Spread.of([cost.server_us for cost in costs]).median
            for costs in (row.cycles(rival), row.enqueue[rival], row.work_off[rival])
        ]
        client = Spread.of([cost.client_us for cost in row.cycles(rival)]).median
        parts = f"({middle[1]:.2f} + {middle[2]:.2f})"
        to.note(f"{rival:<26}{row.rate(rival).median:>9,.0f}{middle[0]:>17.2f}{parts:>18}{client:>17.2f}")


def _add_ratios(to: Report, row: Row, suffix: str) -> None:
    setting = row.setting
    is_main = setting.batch == 100 and setting.size == 100 and not suffix
    name = f"b{setting.batch}" + ("_10kb" if setting.size == 10_000 else "") + suffix
    limit = (
        "the scripts' fixed cost for each call"
        if setting.batch < 100
        else "copying the item in and out of the script"
    )
    for other, most in (("lists", 3.0), ("streams", 1.7)):
        to.of_rounds(
            f"cycle_server_cpu_vs_{other}_{name}",
            f"server time for an item, against {other}",
            row.server_against(other),
            most=most if is_main else None,
            limit=limit,
        )
    if not is_main:
        to.of_rounds(f"cycle_items_per_second_{name}", "items/s through one process", row.rate("claimq"))
        to.of_rounds(f"lists_items_per_second_{name}", "items/s of lists", row.rate("lists"))


def _add_rates(to: Report, row: Row) -> None:
    """The rate asked for is 50,000/s where lists reach 80,000: the same share where lists reach less."""
    lists, share = row.rate("lists"), 50_000 / 80_000
    to.of_rounds("lists_items_per_second_b100", "items/s of lists", lists, unit="/s")
    to.of_rounds("streams_items_per_second_b100", "items/s of streams", row.rate("streams"), unit="/s")
    to.of_rounds(
        "cycle_items_per_second_b100",
        f"items/s through one process (5/8 of {shown(lists.median, 'lists')})",
        row.rate("claimq"),
        unit="/s",
        least=min(50_000.0, lists.median * share),
        limit="Python's time for an item, shown above as client us",
    )
    for rival, name in (("lists", "lists"), ("claimq", "cycle")):
        rate = Spread.of([cost.rate for cost in row.work_off[rival]])
        to.of_rounds(
            f"{name}_claim_done_per_second_b100",
            f"items/s of {rival}, claim and done only",
            rate,
            unit="/s",
        )
    to.of_rounds(
        "cycle_server_cpu_vs_one_push_b100",
        "server time, against lists with one LPUSH a batch",
        row.server_against("lists, one LPUSH a batch"),
    )
