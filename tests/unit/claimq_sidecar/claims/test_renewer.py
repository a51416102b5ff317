"""When leases are renewed, in a time of its own."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from claimq.errors import ClaimqError, StoreMisused, StoreUnavailable
from claimq.model import Outcome
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.renewer import Renewer
from claimq_sidecar.claims.verdicts import Verdicts
from testkit.skipping_loop import run_skipping

LEASE = 60.0


class Tried(Verdicts):
    """Notes when renewals are tried; the first ones fail as they are told to."""

    def __init__(self, *failures: ClaimqError) -> None:
        self.at: list[float] = []
        self._failures = list(failures)

    async def renew(self, tokens: Sequence[str]) -> list[Outcome]:
        self.at.append(asyncio.get_running_loop().time())
        if self._failures:
            raise self._failures.pop(0)
        return []


def tries(*failures: ClaimqError, seconds: float) -> list[float]:
    """When a sidecar that holds one claim from 0 on tries to renew it."""
    hands, tried = InFlight(), Tried(*failures)
    hands.hold("worker/1", "session", 0.0, LEASE)

    async def run() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await Renewer(hands, tried).run()

    run_skipping(run())
    return tried.at


def test_a_lease_is_renewed_three_times_in_its_length() -> None:
    assert [round(at) for at in tries(seconds=65)] == [20, 40, 60]


def test_after_an_outage_no_period_is_waited_for() -> None:
    # The store gives holders ten seconds once it answers again, whatever the length of the lease.
    first, second, third = tries(StoreUnavailable("away"), seconds=45)
    assert second - first < 1
    assert round(third - second) == 20


def test_what_no_trying_mends_is_tried_no_oftener() -> None:
    assert [round(at) for at in tries(StoreMisused("no permission"), seconds=45)] == [20, 40]
