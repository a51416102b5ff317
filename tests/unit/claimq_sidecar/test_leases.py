"""The length of a renewed lease, also when the server's clock has been set."""

import asyncio

import pytest

from claimq_sidecar.metrics import Metrics
from claimq_sidecar.settings import RedisSource
from claimq_sidecar.store import Store

SERVER_TIME = 2_000_000_000.0


def renewed_lease(step: float = 0.0, *, known: float | None = 30.0, granted: float = 30.0) -> float | None:
    """The length that the store computes for a renewal of ``granted`` seconds, after the clock was set by ``step``."""

    async def run() -> float | None:
        store = Store(RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", Metrics())
        store.busy_expiry = known
        store.clock.note(SERVER_TIME)
        requested_at = asyncio.get_running_loop().time()
        lease = store.lease(SERVER_TIME + step + granted, requested_at)
        await store.close()
        return lease

    return asyncio.run(run())


@pytest.mark.parametrize("step", [100.0, 3600.0])
def test_a_clock_that_was_set_forward_makes_no_lease_longer_than_the_policy(step: float) -> None:
    assert renewed_lease(step) == 30.0


@pytest.mark.parametrize(("known", "shortest"), [(30.0, 1.0), (0.5, 0.5), (None, 1.0)])
def test_a_clock_that_was_set_back_makes_no_lease_too_short(known: float | None, shortest: float) -> None:
    assert renewed_lease(-30.0, known=known) == shortest


def test_a_policy_that_has_become_shorter_counts_at_once() -> None:
    assert renewed_lease(granted=6.0) == pytest.approx(6.0, abs=0.1)


def test_a_lease_is_as_long_as_the_server_grants_while_no_policy_is_known() -> None:
    assert renewed_lease(known=None, granted=60.0) == pytest.approx(60.0, abs=0.1)
