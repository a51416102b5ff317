"""``spec.limits`` of a manifest becomes the limits of the policy."""

from claimq.limits import Limit
from claimq_control.manifest import parse_manifest

MANIFEST = {
    "apiVersion": "claimq.dev/v1alpha1",
    "kind": "ReliableQueue",
    "metadata": {"name": "letters"},
    "spec": {
        "redis": {"url": "redis://redis"},
        "worker": {"image": "app"},
        "limits": [{"name": "api", "rate": "100/s", "burst": 200}, {"name": "licences", "busy": 20}],
    },
}


def test_the_policy_has_the_limits_of_the_manifest() -> None:
    assert parse_manifest(MANIFEST).spec.policy_fields().get("limits") == (
        Limit("api", rate="100/s", burst=200),
        Limit("licences", busy=20),
    )
