"""The worker of the checksum example, on a real queue behind a real sidecar."""

import hashlib
from pathlib import Path

import pytest

import claimq
from claimq.testing import EmbeddedServer
from testkit.programs.examples import load

accounting, worker = load("accounting"), load("worker")


def test_each_file_has_its_checksum_and_what_cannot_be_read_has_failed(
    claimq_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, file, missing = tmp_path / "results", tmp_path / "file", tmp_path / "missing"
    file.write_bytes(b"content")
    monkeypatch.setenv("CHECKSUMS_RESULTS", str(results))
    queue = claimq_server.queue("checksums")
    queue.set_policy(claimq.Policy(requeue_limit=1))
    queue.enqueue_many([bytes(file), bytes(missing)])
    claimq_server.run_worker("checksums", worker.main)
    (result,) = accounting.read_results(results)
    assert (result.path, result.checksum) == (bytes(file), hashlib.sha256(b"content").hexdigest())
    (failed,) = queue.failed_items()
    assert (failed.item.payload, failed.item.last_error) == (bytes(missing), "No such file or directory")
