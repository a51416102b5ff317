"""Takes samples of all queues periodically, and keeps the warnings of the servers."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence

from claimq.concurrency.background_work import run_every
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Snapshot
from claimq_admin.reads.queue_reads import note_of
from claimq_web.curves.samples import Sample, Samples, sample_of
from claimq_web.queues.queues import Group, Queues
from claimq_web.users.limits import answering

_PERIOD = 2.0
_LEAST_SHARE = 5
"""The pause after a pass is this many times as long as its prompt queues took, so that 10,000 queues keep no server
busy."""
_AT_ONCE = 16
_WARNINGS_EVERY = 60.0
_SAMPLE_SECONDS = 5.0
"""How long a pass waits for the answers of one queue."""
_LATE_SECONDS = 1.0
"""A queue that fails or takes longer is late: the next pass takes it last, and its time does not make the pause longer.
So one tenant with hundreds of bad servers delays no others."""
_SECONDS_FOR_LATE = 1.0
"""How long a pass goes on with late queues. The next pass begins with those that are left."""
_log = logging.getLogger(__name__)


class Sampler:
    """Reads a snapshot of each queue in each pass. A queue that cannot be read does not stop the others."""

    def __init__(self, queues: Queues, samples: Samples) -> None:
        self.samples = samples
        self.problem = ""
        """Why the names of the queues could not be read in the last pass; empty if they were."""
        self.problems: dict[str, str] = {}
        """The queues that could not be read in the last pass, and why."""
        self.warnings: tuple[str, ...] = ()
        self.unsampled_count = 0
        """Queues for which the memory had no room."""
        self._queues = queues
        self._late: Sequence[str] = ()
        self._prompt_seconds = 0.0
        self._warned_at = -_WARNINGS_EVERY
        self._logged: dict[str, str] = {}
        """The last error of queues where users do not see the cause."""

    async def run(self) -> None:
        """Runs until it is cancelled. An error ends a pass, not the sampler."""
        await run_every(_PERIOD, self._pass, name="samples for the web page", stop=asyncio.Event())

    async def _pass(self) -> bool:
        try:
            await self.sample_all()
            await self._read_warnings()
        except StoreUnavailable:
            if any(self._queues.servers()):
                raise
            # `claimq up` stops: its connections were closed during this pass.
        await asyncio.sleep(max(0.0, _LEAST_SHARE * self._prompt_seconds - _PERIOD))
        return False

    async def sample_all(self) -> None:
        """One pass. Raises StoreUnavailable or StoreMisused if no queue can be read."""
        self._prompt_seconds = 0.0
        try:
            names = await self._queues.names()
        except ClaimqError as error:
            self.problem = str(error)
            raise
        self.problem = ""
        sampled, before = names[: self.samples.most_queues], self.problems
        late, self._late = dict.fromkeys(self._late), ()
        self.unsampled_count = len(names) - len(sampled)
        results = await self._sample_together([name for name in sampled if name not in late])
        alone = [name for name in sampled if name not in late and name not in results]
        await self._sample_each(alone, results, math.inf)
        known = set(sampled)
        self._logged = {name: text for name, text in self._logged.items() if name in known}
        unfinished = await self._sample_each(
            [name for name in late if name in known], results, _SECONDS_FOR_LATE
        )
        self._late = [*unfinished, *self._late]
        self.samples.keep_only(
            {name for name, outcome in results.items() if outcome is not None} | {*unfinished}
        )
        errors = {name: outcome for name, outcome in results.items() if isinstance(outcome, ClaimqError)}
        self.problems = {name: before[name] for name in unfinished if name in before} | {
            name: str(errors[name]) for name in errors
        }
        if errors and len(self.problems) == len(sampled):
            raise next(iter(errors.values()))

    async def _sample_together(self, names: Sequence[str]) -> dict[str, Sample | ClaimqError | None]:
        """The samples of queues that share a server, with few round trips."""
        results = dict[str, Sample | ClaimqError | None]()
        groups = [group for group in self._queues.together(names) if len(group[0]) > 1]
        for begin in range(0, len(groups), _AT_ONCE):
            page = await asyncio.gather(*map(self._try_group, groups[begin : begin + _AT_ONCE]))
            for snapshots, _ in page:
                results |= {name: self._added(name, snapshot) for name, snapshot in snapshots.items()}
            self._prompt_seconds += max(took for _, took in page)
        return results

    async def _try_group(self, group: Group) -> tuple[Mapping[str, Snapshot | None], float]:
        """The snapshots of a group, and how many seconds they took. None after an error: these queues are sampled
        alone, which finds the one that it is about."""
        (names, read), loop = group, asyncio.get_running_loop()
        began = loop.time()
        try:
            async with answering("samples", _SAMPLE_SECONDS):
                snapshots = await read()
        except ClaimqError:
            return {}, 0.0
        took = loop.time() - began
        if took <= _LATE_SECONDS or any(self._queues.servers()):  # the user's own are never late
            return snapshots, took
        self._late = [*self._late, *names]
        return snapshots, 0.0

    async def _sample_each(
        self, names: Sequence[str], results: dict[str, Sample | ClaimqError | None], seconds: float
    ) -> Sequence[str]:
        """Samples queues, some at a time, and begins no others after so many seconds; returns those that are left."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        for begin in range(0, len(names), _AT_ONCE):
            if loop.time() >= due:
                return names[begin:]
            page = names[begin : begin + _AT_ONCE]
            timed = dict(zip(page, await asyncio.gather(*map(self._timed_sample, page)), strict=True))
            results.update((name, outcome) for name, (outcome, _) in timed.items())
            late = {
                name
                for name, (outcome, took) in timed.items()
                if isinstance(outcome, ClaimqError) or took > _LATE_SECONDS
            }
            self._late = [*self._late, *(name for name in page if name in late)]
            self._prompt_seconds += max(
                (took for name, (_, took) in timed.items() if name not in late), default=0.0
            )
        return []

    async def _timed_sample(self, name: str) -> tuple[Sample | ClaimqError | None, float]:
        """The sample of a queue or why there is none, and how many seconds it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        return await self._try_sample(name), loop.time() - began

    async def _try_sample(self, name: str) -> Sample | ClaimqError | None:
        try:
            async with answering(name, _SAMPLE_SECONDS):
                sample = await self.sample(name)
        except ClaimqError as error:
            message = self._queues.shown(error)
            if message is not error and self._logged.get(name) != str(error):
                self._logged[name] = str(error)
                _log.warning("%s: its server cannot be used: %s", name, error)
            return message
        self._logged.pop(name, None)
        return sample

    async def sample(self, name: str) -> Sample | None:
        """Takes a sample of one queue; None if it does not exist."""
        queue = self._queues.queue(name)
        if queue is None:
            return None
        await self._queues.check(name)
        snapshot = await queue.snapshot()
        if snapshot.seq == 0 and not any(snapshot.lengths.values()) and not await queue.exists():
            return None
        return self._added(name, snapshot)

    def _added(self, name: str, snapshot: Snapshot | None) -> Sample | None:
        if snapshot is None:
            return None
        sample = sample_of(snapshot)
        self.samples.add(name, sample, note_of(snapshot))
        return sample

    async def _read_warnings(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._warned_at < _WARNINGS_EVERY:
            return
        self._warned_at = now
        reports = [await server.report() for server in self._queues.servers()]
        self.warnings = tuple(
            dict.fromkeys(warning.message for report in reports for warning in report.warnings)
        )
