"""How long calls are retried, also when verdicts have a period of their own, in simulated time."""

import asyncio
from typing import Any

import pytest

from claimq import RedisSettings, StoreUnavailable
from claimq.redis_store.connection import Connection
from testkit.skipping_loop import run_skipping

LONG = RedisSettings(retry_for=5.0, verdict_retry_for=180.0)


def seconds_of_retries(settings: RedisSettings, use: str) -> float:
    async def run() -> float:
        async def fail(client: Any) -> None:
            del client
            raise ConnectionRefusedError

        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(StoreUnavailable):
            await Connection(settings).retry(fail, doing="x", use=use)
        return loop.time() - start

    return run_skipping(run())


def has_a_client_of_its_own(settings: RedisSettings) -> bool:
    """Whether renewals and verdicts use different clients."""

    async def same(client: Any) -> Any:
        return client

    async def run() -> bool:
        connection = Connection(settings)
        clients = [await connection.retry(same, doing="x", use=use) for use in ("verdicts", "renewals")]
        await connection.close()
        return clients[0] is not clients[1]

    return run_skipping(run())


@pytest.mark.parametrize(("use", "seconds"), [("calls", 5), ("renewals", 5), ("verdicts", 180)])
def test_only_verdicts_are_retried_for_longer(use: str, seconds: float) -> None:
    assert seconds_of_retries(LONG, use) == pytest.approx(seconds)


@pytest.mark.parametrize("use", ["calls", "renewals", "verdicts"])
def test_without_the_setting_all_calls_are_retried_for_the_whole_period(use: str) -> None:
    assert seconds_of_retries(RedisSettings(retry_for=5.0), use) == pytest.approx(5)


def test_verdicts_that_are_retried_for_longer_do_not_share_sockets_with_renewals() -> None:
    assert has_a_client_of_its_own(LONG)
    assert not has_a_client_of_its_own(RedisSettings())
