"""Settings of connections that wait for a server which does not answer for lack of a processor."""

from typing import Any

from claimq import RedisSettings
from testkit.waiting import PATIENCE


def patient(url: str, **settings: Any) -> RedisSettings:
    """The settings of a connection, with as long as a test waits for an answer unless ``settings`` say otherwise. With
    the library's own, a call fails after ten seconds in which the server or the test stood still."""
    chosen: dict[str, Any] = {"connect_timeout": PATIENCE, "reply_timeout": PATIENCE, **settings}
    return RedisSettings(url, **chosen)
