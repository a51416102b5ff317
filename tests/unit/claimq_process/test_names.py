"""Names that several components use, and copies of them in packages that cannot import them."""

import pytest

from claimq.worker.wire import DEFAULT_SOCKET
from claimq_control.manifest import parse_manifest
from claimq_operator.children.redis_secrets import environment
from claimq_operator.children.sidecar import sidecar
from claimq_operator.settings import OperatorSettings
from claimq_process import names
from claimq_sidecar.settings import unknown_variables

MANIFEST = {
    "apiVersion": names.API_VERSION,
    "kind": "ReliableQueue",
    "metadata": {"name": "thumbs", "namespace": "media"},
    "spec": {
        "processingTimeout": "1m",
        "redis": {
            "secretRef": {"name": "server", "key": "url"},
            "passwordSecretRef": {"name": "server", "key": "password"},
            "tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "cert"}},
            "sentinel": {"masterName": "main", "passwordSecretRef": {"name": "server", "key": "sentinel"}},
        },
        "worker": {"image": "app:1"},
    },
}


UID = "0b6ff1c1-3c5e-4d0a-9d2e-6a1e5d1f8a77"


@pytest.mark.parametrize(
    ("worker", "pod"),
    [
        (f"thumbs-abc-12.{UID}.1795232291850", ("thumbs-abc-12", UID)),
        (f"orders.eu-abc-12.{UID}.1", ("orders.eu-abc-12", UID)),
        ("host-5e1c2a94", None),
        (f"../../secrets/db.{UID}.1", None),
        (f"thumbs/log.{UID}.1", None),
        (f"thumbs?x=.{UID}.1", None),
        (f"thumbs.{UID}.1\n", None),
        (f"thumbs.{UID}", None),
    ],
)
def test_a_worker_is_in_the_pod_that_its_name_says(worker: str, pod: tuple[str, str] | None) -> None:
    assert names.pod_of_worker(worker) == pod


def test_the_worker_client_has_the_socket_of_a_pod_as_its_default() -> None:
    assert DEFAULT_SOCKET == names.SOCKET


def test_the_sidecar_knows_every_variable_that_the_operator_sets() -> None:
    spec = parse_manifest(MANIFEST).spec
    assert spec.redis is not None
    container = sidecar(spec, OperatorSettings(sidecar_image="sidecar:1"), "key", "media")
    given = {one["name"]: "" for one in (*container["env"], *environment(spec.redis, "media"))}
    assert len(given) > 15
    assert unknown_variables(given) == []
