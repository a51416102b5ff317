"""How long a verdict is retried, on both ends of the socket."""

import inspect
from collections.abc import Callable

import pytest

import claimq.worker
from claimq_sidecar.store import VERDICT_SECONDS


@pytest.mark.parametrize("connect", [claimq.worker.connect, claimq.worker.connect_async])
def test_the_sidecar_retries_a_verdict_for_longer_than_the_app_waits(connect: Callable[..., object]) -> None:
    # A sidecar that gave up sooner would start another attempt, which the server does not recognize as a repetition: it
    # could answer *lost* although the first attempt has ended the claim.
    patience = inspect.signature(connect).parameters["patience"].default
    assert 120 <= patience < VERDICT_SECONDS
