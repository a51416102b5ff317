"""Leader election by a Lease, without comparing clocks."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from claimq_kubernetes.port import Conflict, Json, Kind, NotFound
from claimq_operator.election.leader_election import LeaderElection, ObservedLease, Step
from claimq_operator.settings import OperatorSettings
from claimq_process.timestamps import format_micro_time
from testkit.skipping_loop import run_skipping
from testkit.waiting import eventually


def test_a_free_lease_is_taken() -> None:
    assert ObservedLease().updated({}, 0.0).step("me", 15.0, 0.0) is Step.TAKE


@pytest.mark.parametrize("duration", [15.0, 0.5])
def test_the_lease_of_another_is_acquired_only_after_its_duration_without_a_change(duration: float) -> None:
    """A lease without a duration lasts as long as the candidate's own."""
    seen = ObservedLease().updated({"holderIdentity": "other", "renewTime": "1"}, 100.0)
    assert seen.step("me", duration, 100.0 + duration - 0.1) is Step.WAIT
    assert seen.step("me", duration, 100.0 + duration) is Step.TAKE


def test_a_renewal_restarts_the_wait_whatever_the_holders_clock_shows() -> None:
    seen = ObservedLease().updated({"holderIdentity": "other", "renewTime": "long ago"}, 100.0)
    seen = seen.updated({"holderIdentity": "other", "renewTime": "longer ago"}, 110.0)
    assert seen.step("me", 15.0, 120.0) is Step.WAIT


def test_a_holder_with_a_longer_lease_duration_is_waited_for_as_long() -> None:
    # As in a rollout that shortens the duration: the old operator renews at intervals of its own duration.
    spec = {"holderIdentity": "other", "renewTime": "1", "leaseDurationSeconds": 60}
    seen = ObservedLease().updated(spec, 100.0)
    assert seen.step("me", 3.0, 159.0) is Step.WAIT
    assert seen.step("me", 3.0, 160.0) is Step.TAKE


def test_the_own_lease_is_renewed() -> None:
    assert (
        ObservedLease().updated({"holderIdentity": "me", "renewTime": "1"}, 0.0).step("me", 15.0, 99.0)
        is Step.RENEW
    )


class LeaseHolder:
    """The requests that an election uses, with resource versions checked as by the API server."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.is_cut = False
        self.reads = 0

    @property
    def version(self) -> int:
        return 0 if self.lease is None else int(self.lease["metadata"]["resourceVersion"])

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del kind, namespace
        self.reads += 1
        if self.is_cut:
            raise TimeoutError
        if self.lease is None:
            raise NotFound(name)
        return self.lease

    async def create(self, kind: Kind, body: Json) -> Json:
        del kind
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        return self.lease

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        del kind, namespace
        if self.is_cut:
            raise TimeoutError
        assert self.lease is not None
        version = self.lease["metadata"]["resourceVersion"]
        if changes["metadata"]["resourceVersion"] != version:
            raise Conflict(name)
        metadata = {**self.lease["metadata"], "resourceVersion": str(int(version) + 1)}
        self.lease = {**self.lease, "metadata": metadata, "spec": {**self.lease["spec"], **changes["spec"]}}
        return self.lease

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        raise NotImplementedError

    async def has_kind(self, kind: Kind) -> bool:
        raise NotImplementedError

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        keep: Callable[[Json], Json] | None = None,
        *,
        fields: str = "",
    ) -> list[Json]:
        raise NotImplementedError


class Candidate:
    """A candidate that records whether it leads."""

    def __init__(
        self, holder: LeaseHolder, identity: str, wall_clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        settings = OperatorSettings(sidecar_image="s", identity=identity, lease_duration=0.5)
        self.works = False
        self._run = asyncio.ensure_future(
            LeaderElection(holder, settings, wall_clock).run(self._work, lambda _: None)
        )

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def end(self) -> None:
        self._run.cancel()
        await asyncio.gather(self._run, return_exceptions=True)


async def test_one_of_two_leads_and_the_other_follows_when_it_stops() -> None:
    holder = LeaseHolder()
    first = Candidate(holder, "first")
    await eventually(lambda: first.works)
    second = Candidate(holder, "second")
    await first.end()
    await eventually(lambda: second.works)
    assert not first.works
    await second.end()
    assert holder.lease is not None
    assert holder.lease["spec"]["holderIdentity"] == ""


async def test_a_leader_that_cannot_renew_stops_before_another_may_start() -> None:
    holder = LeaseHolder()
    first = Candidate(holder, "first")
    await eventually(lambda: first.works)
    holder.is_cut = True
    await eventually(lambda: not first.works)
    holder.is_cut = False
    await eventually(lambda: first.works)
    await first.end()


async def test_a_leader_reads_the_lease_again_only_after_a_conflict() -> None:
    holder = LeaseHolder()
    first = Candidate(holder, "first")
    await eventually(lambda: holder.version >= 6)
    assert holder.reads == 1
    assert holder.lease is not None
    holder.lease = {**holder.lease, "metadata": {**holder.lease["metadata"], "resourceVersion": "100"}}
    await eventually(lambda: holder.version >= 103)
    assert holder.reads == 2
    await first.end()


async def test_a_leader_that_loses_the_lease_stops() -> None:
    holder = LeaseHolder()
    first = Candidate(holder, "first")
    await eventually(lambda: first.works)
    assert holder.lease is not None
    spec = {**holder.lease["spec"], "holderIdentity": "another"}
    holder.lease = {"metadata": {**holder.lease["metadata"], "resourceVersion": "100"}, "spec": spec}
    await eventually(lambda: not first.works)
    assert holder.lease["spec"]["holderIdentity"] == "another"
    await first.end()


async def test_only_a_new_leader_changes_when_and_how_often_the_lease_was_acquired() -> None:
    holder = LeaseHolder()
    first = Candidate(holder, "first", wall_clock=lambda: float(holder.version))
    await eventually(lambda: holder.version >= 4)
    await first.end()
    assert holder.lease is not None
    released = holder.lease["spec"]
    assert (released["leaseTransitions"], released["leaseDurationSeconds"]) == (1, 1)
    assert released["acquireTime"] == format_micro_time(1.0)
    assert released["renewTime"] == format_micro_time(holder.version - 1.0)
    second = Candidate(holder, "second", wall_clock=lambda: 1000.0)
    await eventually(lambda: second.works)
    assert holder.lease["spec"]["leaseTransitions"] == 2
    assert holder.lease["spec"]["acquireTime"] == format_micro_time(1000.0)
    await second.end()


async def test_a_stopping_leader_does_not_recreate_a_deleted_lease() -> None:
    holder = LeaseHolder()
    first = Candidate(holder, "first")
    await eventually(lambda: first.works)
    holder.lease = None
    await first.end()
    assert holder.lease is None


class HangingLater(LeaseHolder):
    """Stops responding at a given time; records when requests arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = False
        self.asked: list[float] = []

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        self.asked.append(asyncio.get_running_loop().time())
        if self.hangs:
            await asyncio.Event().wait()
        return await super().patch(kind, namespace, name, changes)

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        if self.hangs:
            self.asked.append(asyncio.get_running_loop().time())
            await asyncio.Event().wait()
        return await super().get(kind, namespace, name)


LEASE = 15.0


def run_election(
    holder: HangingLater, scenario: Callable[[], Awaitable[None]]
) -> tuple[list[float], list[bool], float]:
    """Runs an election during `scenario`: when its work ended, what it reported after attempts, and how long it ran."""
    ends: list[float] = []
    attempts: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(asyncio.get_running_loop().time())

    async def run() -> float:
        settings = OperatorSettings(sidecar_image="s", identity="first", lease_duration=LEASE)
        election = asyncio.ensure_future(
            LeaderElection(holder, settings, lambda: 0.0).run(work, attempts.append)
        )
        await scenario()
        election.cancel()
        await asyncio.gather(election, return_exceptions=True)
        return asyncio.get_running_loop().time()

    return ends, attempts, run_skipping(run())


def test_a_leader_without_responses_stops_before_the_lease_expires() -> None:
    holder = HangingLater()

    async def scenario() -> None:
        await asyncio.sleep(4)
        holder.hangs = True
        await asyncio.sleep(60)

    ends, attempts, _ = run_election(holder, scenario)
    renewed = [at for at in holder.asked if at < 4][-1]
    assert ends[0] == pytest.approx(renewed + 0.8 * LEASE)
    assert attempts[:2] == [True, True]
    assert not any(attempts[3:])


def test_a_request_that_hangs_late_in_the_lease_does_not_outlast_it() -> None:
    holder = HangingLater()

    async def scenario() -> None:
        await asyncio.sleep(4)
        holder.is_cut = True  # these requests fail at once, so that the last one begins late
        await asyncio.sleep(6)
        holder.hangs = True
        await asyncio.sleep(60)

    ends, _, _ = run_election(holder, scenario)
    assert ends[0] == pytest.approx(3 + 0.8 * LEASE)


def test_a_candidate_gives_up_a_request_after_half_of_the_lease_duration() -> None:
    holder = HangingLater()
    holder.hangs = True
    run_election(holder, lambda: asyncio.sleep(30))
    between = LEASE / 2 + LEASE / 5
    assert holder.asked == pytest.approx([0.0, between, 2 * between])


def test_a_stopping_leader_waits_two_seconds_for_its_release() -> None:
    holder = HangingLater()

    async def scenario() -> None:
        await asyncio.sleep(4)
        holder.hangs = True

    assert run_election(holder, scenario)[2] == pytest.approx(6.0)
