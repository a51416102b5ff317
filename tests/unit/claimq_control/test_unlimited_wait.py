"""`spec.claimWaitTimeout: Unlimited`: claims that wait without a limit."""

import pytest

from claimq.errors import InvalidSpec
from claimq.policy import Policy
from claimq_control.manifest import Manifest, parse_manifest


def parsed(**spec: object) -> Manifest:
    return parse_manifest(
        {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": {"name": "thumbnails", "namespace": "media"},
            "spec": {"redis": {"url": "redis://redis/0"}, "worker": {"image": "app"}, **spec},
        }
    )


def test_a_claim_may_wait_without_a_limit() -> None:
    fields = parsed(claimWaitTimeout="Unlimited").spec.policy_fields()
    assert "claim_wait_timeout" in fields
    assert Policy(**fields).claim_wait_timeout is None


@pytest.mark.parametrize("value", ["unlimited", "never", "2h"])
def test_another_word_for_no_limit_is_refused_with_the_right_one(value: str) -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.claimWaitTimeout: .*, or Unlimited"):
        parsed(claimWaitTimeout=value)


def test_other_durations_cannot_be_unlimited() -> None:
    with pytest.raises(InvalidSpec, match=r'spec\.idWindow: "Unlimited" is not a duration'):
        parsed(idWindow="Unlimited")
