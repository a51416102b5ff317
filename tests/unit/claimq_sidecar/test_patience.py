"""How long a verdict is tried, from both ends of the socket."""

import inspect
from collections.abc import Callable

import pytest

import claimq.worker
from claimq_sidecar.store import VERDICT_SECONDS


@pytest.mark.parametrize("connect", [claimq.worker.connect, claimq.worker.connect_async])
def test_an_app_outlasts_an_outage_that_its_sidecar_tries_through(connect: Callable[..., object]) -> None:
    # It asks again after the sidecar has given up: with the same limit both would end in the same moment, and an
    # outage of just that length would cost the app.
    assert inspect.signature(connect).parameters["patience"].default >= 2 * VERDICT_SECONDS
