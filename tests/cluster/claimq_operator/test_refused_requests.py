"""Requests that a real API server does not accept: the condition has its words, and the rest of the pass goes on."""

import json
from collections.abc import Iterator

import pytest

from testkit.kubernetes.operator_world import World
from testkit.waiting import eventually_sync


def stalled_message(world: World) -> str:
    found = world.status().get("conditions", [])
    return next((str(one["message"]) for one in found if one["type"] == "Stalled"), "")


def test_a_field_that_the_api_server_does_not_know_is_reported_by_name(world: World) -> None:
    world.operator()
    world.queue(worker={"image": "app:1", "template": {"spec": {"dnsConfig": {"nameserver": ["10.0.0.1"]}}}})
    eventually_sync(lambda: world.condition("Stalled") == "True ChildInvalid")
    assert 'unknown field "spec.template.spec.dnsConfig.nameserver"' in stalled_message(world)
    assert "correct spec.worker.template" in stalled_message(world)
    world.patch("rq", "thumbs", {"spec": {"worker": {"template": None}}})
    eventually_sync(lambda: world.condition("Stalled") == "False NotStalled")


def test_workers_are_scaled_while_a_new_field_of_the_template_is_unknown(world: World) -> None:
    world.operator()
    world.queue(scaling={"minReplicas": 1})
    world.wait_for_replicas(1)
    unknown = {"template": {"spec": {"dnsConfig": {"nameserver": ["10.0.0.1"]}}}}
    world.patch("rq", "thumbs", {"spec": {"worker": unknown, "scaling": {"minReplicas": 3}}})
    eventually_sync(lambda: world.condition("Stalled") == "True ChildInvalid")
    assert ".spec.template.spec.dnsConfig.nameserver: field not declared in schema" in stalled_message(world)
    world.wait_for_replicas(3)


def test_a_duplicate_that_the_schema_cannot_find_is_a_refusal_too(world: World) -> None:
    """Two claims of one name in a container's resources: these lists are not part of the queue's schema."""
    world.operator()
    world.queue(scaling={"minReplicas": 1})
    world.wait_for_replicas(1)
    twice = {"name": "other", "image": "app:1", "resources": {"claims": [{"name": "a"}, {"name": "a"}]}}
    worker = {"template": {"spec": {"containers": [twice]}}}
    world.patch("rq", "thumbs", {"spec": {"worker": worker, "scaling": {"minReplicas": 2}}})
    eventually_sync(lambda: world.condition("Stalled") == "True ChildInvalid")
    assert "duplicate entries" in stalled_message(world)
    world.wait_for_replicas(2)


@pytest.fixture
def no_budgets(world: World) -> Iterator[str]:
    """A webhook for PodDisruptionBudgets of the namespace that does not answer; its name."""
    name = f"{world.namespace}.claimq.dev"
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    rule = {
        "apiGroups": ["policy"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["poddisruptionbudgets"],
    }
    webhook = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": namespaces,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    world.api.kubectl(
        "create", "-f", "-", stdin=json.dumps({**kind, "metadata": {"name": name}, "webhooks": [webhook]})
    )
    yield name
    world.api.kubectl("delete", "validatingwebhookconfiguration", name)


def test_a_webhook_that_does_not_answer_is_reported_and_the_workers_are_scaled(
    world: World, no_budgets: str
) -> None:
    world.operator()
    world.queue(scaling={"minReplicas": 1})
    world.wait_for_replicas(1)
    world.patch("rq", "thumbs", {"spec": {"scaling": {"minReplicas": 2}}})
    world.wait_for_replicas(2)
    eventually_sync(lambda: world.condition("Ready") == "False ApiRequestsFail")
    assert f'failed calling webhook "{no_budgets}"' in stalled_message(world)
    assert "the workers have no current PodDisruptionBudget" in stalled_message(world)


@pytest.fixture
def required_label(world: World) -> Iterator[str]:
    """A policy of the namespace that requires a label of Deployments; its name."""
    name = f"{world.namespace}-labels"
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    policy = {
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": namespaces},
            "validations": [
                {
                    "expression": "'cost-center' in object.metadata.labels",
                    "message": "the label cost-center is required",
                }
            ],
        },
    }
    binding = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    for body in (policy, binding):
        document = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}, **body}
        world.api.kubectl("create", "-f", "-", stdin=json.dumps(document))
    eventually_sync(lambda: is_enforced(world), why="the API server applies the policy")
    yield name
    world.api.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


def is_enforced(world: World) -> bool:
    """Whether a Deployment without the label is denied. None is created."""
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "probe", "labels": {"a": "b"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }
    path = f"/apis/apps/v1/namespaces/{world.namespace}/deployments?dryRun=All"
    return world.api.request("POST", path, body)[0] != 201


def test_a_policy_that_denies_the_deployment_is_reported_with_the_field_to_correct(
    world: World, required_label: str
) -> None:
    world.operator()
    world.queue(scaling={"minReplicas": 1})
    eventually_sync(lambda: world.condition("Stalled") == "True DeniedByPolicy")
    message = stalled_message(world)
    assert f"ValidatingAdmissionPolicy '{required_label}'" in message
    assert "the label cost-center is required; correct spec.worker.deployment.labels" in message
    world.patch("rq", "thumbs", {"spec": {"worker": {"deployment": {"labels": {"cost-center": "42"}}}}})
    eventually_sync(lambda: world.condition("Stalled") == "False NotStalled")
    world.wait_for_replicas(1)
