"""Names that several components use, and copies of them in packages that cannot import them."""

from claimq.worker.wire import DEFAULT_SOCKET
from claimq_operator.children.redis_secrets import environment
from claimq_operator.children.sidecar import sidecar
from claimq_operator.settings import OperatorSettings
from claimq_sidecar.settings import unknown_variables
from claimq_spec import names
from claimq_spec.manifest import parse_manifest

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


def test_the_worker_client_has_the_socket_of_a_pod_as_its_default() -> None:
    assert DEFAULT_SOCKET == names.SOCKET


def test_the_sidecar_knows_every_variable_that_the_operator_sets() -> None:
    spec = parse_manifest(MANIFEST).spec
    assert spec.redis is not None
    container = sidecar(spec, OperatorSettings(sidecar_image="sidecar:1"), "key")
    given = {one["name"]: "" for one in (*container["env"], *environment(spec.redis))}
    assert len(given) > 15
    assert unknown_variables(given) == []
