"""Policies under which a failed item can be claimed again at once, for tests that are not about the delay."""

from dataclasses import replace
from typing import Unpack

from claimq import Policy, RetryDelay
from claimq.policy import PolicyFields

AT_ONCE = RetryDelay(initial=0)


def retrying_at_once(**fields: Unpack[PolicyFields]) -> Policy:
    """A policy with these fields and no delay before a retry."""
    return replace(Policy(**fields), retry_delay=AT_ONCE)
