"""Names that several components use, and copies of them in packages that cannot import them."""

from pathlib import Path

import pytest

from claimq.redis_store.default_server import settings_from
from claimq.redis_store.settings import settings_of
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


def test_a_sidecar_reaches_the_server_that_the_operator_uses(tmp_path: Path) -> None:
    redis = parse_manifest(MANIFEST).spec.redis
    assert redis is not None
    entries = {
        "url": "rediss://a:26379,b:26379/2",
        "password": "p",
        "sentinel-password": "s",
        **{name: str(tmp_path / name) for name in ("ca.crt", "tls.crt", "tls.key")},
    }
    for name, content in entries.items():
        (tmp_path / name).write_text(content)
    variables = {
        entry["name"]: entry["value"].replace(names.SECRETS_DIRECTORY, str(tmp_path))
        for entry in environment(redis, "media")
    }
    settings = settings_from(variables)
    assert settings == settings_of(redis.parts(entries), namespace="media")
    assert settings.url == "rediss+sentinel://a.media.svc:26379,b.media.svc:26379/main/2"
    assert (settings.password, settings.sentinel_password) == ("p", "s")
    assert settings.files == tuple(entries[name] for name in ("ca.crt", "tls.crt", "tls.key"))
