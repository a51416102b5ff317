"""How long a verdict is tried, from both ends of the socket."""

import inspect
from collections.abc import Callable

import pytest

import claimq.worker
from claimq_sidecar.store import VERDICT_SECONDS


@pytest.mark.parametrize("connect", [claimq.worker.connect, claimq.worker.connect_async])
def test_a_patient_app_learns_what_its_first_attempt_did(connect: Callable[..., object]) -> None:
    # A sidecar that gave up sooner would begin another attempt, of which the server does not know that it is the same:
    # it could answer lost to what the first one had done.
    patience = inspect.signature(connect).parameters["patience"].default
    assert 120 <= patience < VERDICT_SECONDS
