"""The full cycle (enqueue, claim, done) of the three rivals, in turns on one server."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import claimq
from claimq_bench.meter import Bed, Cost, Spread, must, ratios
from claimq_bench.rivals import Library, Lists, Rival, Streams, new_payloads


@dataclass(frozen=True)
class Setting:
    """One row's size: items of `size` bytes in batches of `batch`, `items` of them in each of `rounds`."""

    batch: int
    size: int
    items: int
    rounds: int


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
