"""Settings of connections for tests: no call fails for lack of a processor."""

from typing import Any

from claimq import RedisSettings
from testkit.waiting import PATIENCE


def patient(url: str, **others: Any) -> RedisSettings:
    """A connection that waits for a late answer as long as a test does. Where the test breaks it, calls go on trying
    for as long. ``others``: more settings, or other values of these."""
    waiting: dict[str, Any] = {"retry_for": PATIENCE, "reply_timeout": PATIENCE, "connect_timeout": PATIENCE}
    return RedisSettings(url, **{**waiting, **others})
