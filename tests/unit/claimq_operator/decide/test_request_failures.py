"""Which failed requests the conditions report, and when."""

import pytest

from claimq_control.fault import Fault
from claimq_kubernetes.port import ClusterError, ClusterUnavailable, NamespaceEnding, Refused
from claimq_operator.decide.request_failures import NotOurs, RequestFailures, Step

WEBHOOK = ClusterUnavailable('apply of /a: failed calling webhook "policy.example"')


def test_a_request_that_fails_for_thirty_seconds_is_reported_in_the_servers_words() -> None:
    failures = RequestFailures()
    failures.update({Step.DEPLOYMENT: WEBHOOK}, 100.0)
    assert failures.fault(129.9) is None
    failures.update({Step.DEPLOYMENT: WEBHOOK}, 130.0)
    assert failures.fault(130.0) == Fault(
        "ApiRequestsFail",
        "the worker Deployment does not get the fields of this queue: the API server has not accepted the request for "
        '30 s (apply of /a: failed calling webhook "policy.example"); repair what its words name, such as an admission '
        "webhook",
        needs_action=True,
    )


def test_all_effects_of_lasting_failures_are_named() -> None:
    failures = RequestFailures()
    failures.update({Step.DEPLOYMENT: WEBHOOK, Step.COSTS: WEBHOOK}, 0.0)
    fault = failures.fault(30.0)
    assert fault is not None
    assert (
        "and the deletion costs of the worker pods cannot be set, so no idle worker is removed"
        in fault.message
    )


def test_a_request_that_was_accepted_in_between_begins_a_new_period() -> None:
    failures = RequestFailures()
    for now, failed in ((0.0, True), (20.0, False), (25.0, True)):
        failures.update({Step.BUDGET: WEBHOOK} if failed else {}, now)
    assert failures.fault(54.9) is None
    assert failures.fault(55.0) is not None


def test_failures_of_different_steps_do_not_add_up() -> None:
    failures = RequestFailures()
    failures.update({Step.BUDGET: WEBHOOK}, 0.0)
    failures.update({Step.REPLICAS: WEBHOOK}, 29.0)
    assert failures.fault(31.0) is None


DENIED = 'apply of /a: admission webhook "labels.example" denied the request: '
"""The name of a webhook says nothing about the field."""
NO_RIGHT = (
    'deployments.apps is forbidden: User "operator" cannot create resource "deployments" in API group "apps"'
)
ENDING = 'events "a" is forbidden: unable to create new content in namespace b because it is being terminated'


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("you must provide labels: {team}", "correct spec.worker.deployment.labels (of the pods: "),
        (
            "rule check failed at path /spec/template/metadata/labels/team/",
            "correct spec.worker.template.metadata.labels,",
        ),
        ("spec.template.metadata.labels.team is required", "correct spec.worker.template.metadata.labels,"),
        ("an annotation owner is required", "spec.worker.deployment.annotations"),
        ("container <app> has no resource limits", "spec.worker.resources and spec.sidecar.resources"),
        ("the registry docker.example is not allowed", "spec.worker.image, spec.sidecar.image"),
        ("Readiness probes are required", "the entry with the name worker"),
        ("readOnlyRootFilesystem must be true", "securityContext in spec.worker.template.spec"),
        ("at least 2 replicas", "correct spec.scaling"),
        ("no", "correct spec.worker.deployment or spec.worker.template, or exempt"),
    ],
)
def test_the_fix_for_a_denied_deployment_names_the_field(words: str, field: str) -> None:
    failures = RequestFailures()
    failures.update({Step.DEPLOYMENT: Refused(f"{DENIED}{words}", forbidden=True)}, 0.0)
    fault = failures.fault(0.0)
    assert fault is not None
    assert (fault.reason, fault.needs_action) == ("DeniedByPolicy", True)
    assert words in fault.message
    assert field in fault.message.rpartition("; ")[2]


@pytest.mark.parametrize(
    ("step", "error", "reason", "fix"),
    [
        (Step.DEPLOYMENT, Refused("unknown field"), "ChildInvalid", "correct spec.worker.template"),
        (Step.COSTS, Refused("denied"), "ChildInvalid", "remove the policy that rejects it"),
        (Step.BUDGET, Refused(NO_RIGHT, forbidden=True), "Forbidden", "grant the operator the permission"),
        (Step.DEPLOYMENT, NamespaceEnding(ENDING, forbidden=True), "Forbidden", "wait until the namespace"),
        (
            Step.BUDGET,
            Refused(DENIED),
            "DeniedByPolicy",
            "set spec.worker.disruptionBudget: false, or exempt",
        ),
        (Step.COSTS, Refused(DENIED), "DeniedByPolicy", "; exempt the objects of claimq from the policy"),
        (
            Step.DEPLOYMENT,
            Refused(
                'deployments.apps "a" is forbidden: exceeded quota: q, requested: count/deployments.apps=1'
            ),
            "DeniedByPolicy",
            "; raise the quota of the namespace",
        ),
        (Step.BUDGET, NotOurs("it exists"), "ChildNotOurs", "it exists"),
    ],
    ids=lambda value: value.name if isinstance(value, Step) else type(value).__name__,
)
def test_a_refused_request_is_reported_at_once(
    step: Step, error: ClusterError, reason: str, fix: str
) -> None:
    failures = RequestFailures()
    failures.update({Step.FINALIZER: WEBHOOK, step: error}, 0.0)
    fault = failures.fault(0.0)
    assert fault is not None
    assert (fault.reason, fault.needs_action) == (reason, True)
    assert fix in fault.message
