"""How long a claim waits whose request does not say."""

import pytest

from claimq_sidecar.claims.calls import default_wait


@pytest.mark.parametrize(("by_policy", "waits"), [(None, 300.0), (86_400.0, 300.0), (5.0, 5.0), (0.0, 0.0)])
def test_a_claim_waits_as_the_policy_says_within_the_sidecars_limit(
    by_policy: float | None, waits: float
) -> None:
    assert default_wait(by_policy) == waits
