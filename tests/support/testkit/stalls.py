"""A plugin that pauses each test at random points, as a busy machine does: `make stalls`.

It finds tests whose result depends on their speed. Only the thread of the test pauses; the servers go on. The pauses
come after random amounts of processor time, so that they fall into the test and not into its waits.
"""

import os
import secrets
import signal
import time
from collections.abc import Generator

import pytest

PAUSE = float(os.environ.get("CLAIMQ_STALL_SECONDS", "2.5"))
EVERY = 0.04
"""Seconds of processor time between two pauses, on average."""


def _arm() -> None:
    # Not from `random`, whose state Hypothesis watches.
    signal.setitimer(signal.ITIMER_PROF, EVERY * (1 + secrets.randbelow(200)) / 100)


def _pause(*_: object) -> None:
    time.sleep(PAUSE)
    _arm()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Pauses during the test itself, not during its fixtures."""
    before = signal.signal(signal.SIGPROF, _pause)
    _arm()
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
