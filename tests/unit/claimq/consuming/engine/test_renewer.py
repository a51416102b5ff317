"""When leases are renewed, in simulated time."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.renewer import Renewer
from claimq.consuming.engine.slots import Slots
from claimq.errors import ClaimqError, StoreMisused, StoreUnavailable
from claimq.model import Outcome
from testkit.skipping_loop import run_skipping

LEASE = 60.0


class Tried:
    """Records when renewals are tried; the first ones fail with the given errors."""

    def __init__(self, *failures: ClaimqError) -> None:
        self.at: list[float] = []
        self._failures = list(failures)

    async def call(self, _: Sequence[str]) -> list[Outcome]:
        self.at.append(asyncio.get_running_loop().time())
        if self._failures:
            raise self._failures.pop(0)
        return []


def unknown(_lease_until: float | None, _requested_at: float) -> float | None:
    """The clock of the server is unknown."""
    return None


def tries(*failures: ClaimqError, seconds: float) -> list[float]:
    """When a consumer with one claim since second 0 tries to renew it."""
    claims, tried = ClaimsInFlight(Slots(None)), Tried(*failures)
    claims.adopt("worker/1", "session", 0.0, LEASE)

    async def run() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await Renewer(claims, tried.call, lease=unknown, lost=claims.remove).run()

    run_skipping(run())
    return tried.at


def test_a_lease_is_renewed_three_times_in_its_length() -> None:
    assert [round(at) for at in tries(seconds=65)] == [20, 40, 60]


def test_after_an_outage_renewals_do_not_wait_for_the_next_period() -> None:
    # When the server is back, holders have ten seconds to renew, whatever the length of the lease.
    first, second, third = tries(StoreUnavailable("away"), seconds=45)
    assert second - first < 1
    assert round(third - second) == 20


def test_an_error_that_is_no_outage_does_not_shorten_the_period() -> None:
    assert [round(at) for at in tries(StoreMisused("no permission"), seconds=45)] == [20, 40]
