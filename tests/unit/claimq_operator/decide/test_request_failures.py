"""Which failed requests the conditions report, and when."""

import pytest

from claimq_operator.decide.request_failures import NotOurs, RequestFailures, Step
from claimq_operator.fault import Fault
from claimq_spec.kubernetes_api.port import ClusterError, ClusterUnavailable, Refused

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


@pytest.mark.parametrize(
    ("step", "error", "reason", "fix"),
    [
        (Step.DEPLOYMENT, Refused("unknown field"), "ChildInvalid", "correct spec.worker.template"),
        (Step.COSTS, Refused("denied"), "ChildInvalid", "remove the policy that rejects it"),
        (Step.BUDGET, Refused("no", forbidden=True), "Forbidden", "grant the operator the permission"),
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
