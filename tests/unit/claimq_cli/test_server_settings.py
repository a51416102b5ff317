"""Certificates of ReliableQueues become files, within limits."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from claimq_cli.cluster.server_settings import ClusterQueue, queue_of, remove_unused
from claimq_cli.errors import CommandError
from claimq_spec.manifest import parse_manifest

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
    return queue_of(parse_manifest(BODY), BODY, data, directory, retry_for=1.0)


def test_a_certificate_is_a_file_until_no_queue_uses_it(tmp_path: Path) -> None:
    first, second = found(tmp_path, b"first"), found(tmp_path, b"second")
    assert Path(first.settings.ca_file or "").read_bytes() == b"first"
    (tmp_path / "left.partial").touch()
    remove_unused(tmp_path, [second.settings])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"second"]


def test_a_large_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        CommandError, match=r"the ca\.crt in spec\.redis\.tls has more than the allowed 256Ki"
    ):
        found(tmp_path, b"x" * (256 * 1024 + 1))
    assert not list(tmp_path.iterdir())


def test_a_certificate_that_cannot_be_stored_is_an_error_of_its_queue(tmp_path: Path) -> None:
    with pytest.raises(
        CommandError, match=r"a certificate in spec\.redis\.tls cannot be stored: No such file"
    ):
        found(tmp_path / "missing", b"first")
