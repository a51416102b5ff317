"""The chart's objects before a real API server: valid in every field, and good enough for Pod Security `restricted`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testkit.kubernetes.api_server import ApiServer
from testkit.repository.chart import FOLDER, Chart, pods

VALUES = {
    "plain": (),
    "everything": ("valkey.enabled=true", 'imagePullSecrets=["registry"]', 'operator.podLabels={"a":"b"}'),
    "one team": (
        'operator.namespaces=["media"]',
        "crds.install=false",
        'tests.redisUrl="redis://r:6379/0"',
    ),
    "closed": (
        "networkPolicy.enabled=true",
        "valkey.enabled=true",
        "operator.replicas=2",
        "crds.keep=false",
        'networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"a":"b"}}}]',
    ),
    "no disk": ("valkey.enabled=true", "valkey.persistence.enabled=false"),
}


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart()


@pytest.fixture(scope="module")
def strict(api_server: ApiServer) -> Iterator[ApiServer]:
    """The API server, with a namespace that takes and warns about nothing but `restricted` pods."""
    modes = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ns", "labels": modes},
    }
    api_server.kubectl("create", "-f", "-", stdin=json.dumps(body))
    yield api_server
    api_server.kubectl("delete", "namespace", "ns", "--wait=false")


@pytest.mark.parametrize("which", VALUES)
def test_every_object_is_accepted_without_a_warning(strict: ApiServer, chart: Chart, which: str) -> None:
    objects = chart.objects(*VALUES[which])
    text = "\n---\n".join(json.dumps(one) for one in objects)
    said = strict.kubectl_run(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=text,
    )
    assert said.returncode == 0, said.stderr
    assert "Warning" not in said.stderr
    assert len(said.stdout.splitlines()) == len(objects)


def test_kubectl_diff_shows_nothing_once_the_chart_is_applied(strict: ApiServer, chart: Chart) -> None:
    parts = ("networkPolicy", "valkey", "web", "producers")
    values = [f"{part}.enabled=true" for part in parts] + ["crds.install=false"]
    objects = [
        one for one in chart.objects(*values) if "helm.sh/hook" not in one["metadata"].get("annotations", {})
    ]
    text = "\n---\n".join(json.dumps(one) for one in objects)
    strict.kubectl("apply", "-f", "-", stdin=text)
    try:
        difference = strict.kubectl_run("diff", "-f", "-", stdin=text)
        assert (difference.returncode, difference.stdout) == (0, ""), difference.stderr
    finally:
        strict.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


def test_every_pod_is_admitted_where_only_restricted_pods_are(strict: ApiServer, chart: Chart) -> None:
    for name, pod in pods(chart.objects(*VALUES["everything"])):
        head = {"name": "pod", "namespace": "ns"}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": pod["spec"]}
        mounted = {
            mount["name"] for one in pod["spec"]["containers"] for mount in one.get("volumeMounts", ())
        }
        # What the StatefulSet's claims become.
        there = pod["spec"].get("volumes", [])
        claimed = mounted - {volume["name"] for volume in there}
        body["spec"]["volumes"] = [
            *there,
            *({"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claimed),
        ]
        said = strict.kubectl_run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
        assert said.returncode == 0, f"{name}: {said.stderr}"
        assert "Warning" not in said.stderr


def test_a_pod_that_is_not_restricted_would_have_been_refused(strict: ApiServer, chart: Chart) -> None:
    (pod,) = [pod for name, pod in pods(chart.objects()) if name.startswith("Deployment")]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": "ns"}}
    body |= {"spec": pod["spec"] | {"hostNetwork": True}}
    said = strict.kubectl_run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    assert "violates PodSecurity" in said.stderr


@pytest.mark.parametrize(
    ("values", "next_command"),
    [
        ((), "kubectl rollout status deployment/release-claimq --namespace media"),
        (("valkey.enabled=true",), "helm test release --namespace media --logs"),
        (("valkey.enabled=true",), "url: redis://release-claimq-valkey.media.svc:6379/0"),
        (('operator.namespaces=["print"]',), "kubectl get reliablequeues --namespace print --watch"),
    ],
)
def test_the_notes_say_what_to_do_next(
    strict: ApiServer, chart: Chart, values: tuple[str, ...], next_command: str
) -> None:
    said = chart.run(
        "install",
        "release",
        FOLDER,
        "--namespace=media",
        "--dry-run=server",
        # This API server has the definition already, and not from a release.
        "--set-json=crds.install=false",
        *(f"--set-json={one}" for one in values),
        env=strict.environment(),
    )
    assert said.returncode == 0, said.stderr
    notes = said.stdout.partition("NOTES:")[2]
    assert next_command in notes
    assert "kubectl apply --namespace" in notes


def test_the_queue_in_the_notes_is_a_good_one(strict: ApiServer, chart: Chart) -> None:
    words = (
        "install",
        "release",
        FOLDER,
        "--namespace=media",
        "--dry-run=server",
        "--set-json=crds.install=false",
    )
    notes = chart.run(*words, env=strict.environment()).stdout.partition("NOTES:")[2]
    manifest = notes.partition("<<EOT\n")[2].partition("  EOT")[0]
    said = strict.kubectl("create", "--namespace=media", "--dry-run=server", "-f", "-", stdin=manifest)
    assert "reliablequeue.claimq.dev/thumbnails created" in said
