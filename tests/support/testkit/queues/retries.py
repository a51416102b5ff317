"""Policies under which a failed item can be claimed again at once, for tests that are not about the delay or turns."""

from dataclasses import replace
from typing import Unpack

from claimq import Fairness, Policy, RetryDelay
from claimq.policy import PolicyFields

AT_ONCE = RetryDelay(initial=0)


def retrying_at_once(**fields: Unpack[PolicyFields]) -> Policy:
    """A policy with these fields, no delay before a retry, and turns that depend on no time."""
    return replace(Policy(**fields), retry_delay=AT_ONCE, fairness=Fairness(by="count"))
