"""The settings of a connection to the server of a ReliableQueue."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from claimq_admin.cluster.server_settings import ClusterQueue, queue_of
from claimq_admin.errors import CommandError
from claimq_control.manifest import parse_manifest
from claimq_process.certificates import MAX_BYTES, Certificates

BODY = {
    "apiVersion": "claimq.dev/v1alpha1",
    "kind": "ReliableQueue",
    "metadata": {"name": "orders", "namespace": "shop"},
    "spec": {
        "redis": {"url": "rediss://db:6379/0", "tls": {"caSecretRef": {"name": "ca"}}},
        "worker": {"image": "app"},
    },
}


def found(directory: Path, certificate: bytes) -> ClusterQueue:
    data = {"ca": {"ca.crt": base64.b64encode(certificate).decode()}}
    return queue_of(parse_manifest(BODY), BODY, data, Certificates(directory), retry_for=1.0)


def test_a_certificate_is_a_file(tmp_path: Path) -> None:
    (file,) = found(tmp_path, b"first").settings.files
    assert Path(file).read_bytes() == b"first"


def test_a_large_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"the ca\.crt in spec\.redis\.tls has 262145 bytes"):
        found(tmp_path, b"x" * (MAX_BYTES["ca.crt"] + 1))
    assert not list(tmp_path.iterdir())


def test_a_short_host_name_is_a_service_of_the_objects_namespace(tmp_path: Path) -> None:
    """Not of the namespace of the web page, where a namesake may be."""
    found_settings = found(tmp_path, b"first").settings
    assert (found_settings.url, found_settings.namespace) == ("rediss://db.shop.svc:6379/0", "shop")
