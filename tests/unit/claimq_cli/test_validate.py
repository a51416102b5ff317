"""`claimq validate` applies the rules of a cluster or of local mode, and `queue.yaml` is the default file."""

from pathlib import Path

import pytest
import yaml

from claimq_cli.program import run

ON_A_CLUSTER = """
apiVersion: claimq.dev/v1alpha1
kind: ReliableQueue
metadata: {name: mails, namespace: shop}
spec:
  redis: {secretRef: {name: redis}}
  worker: {image: app:1}
  scaling: {maxReplicas: 2}
"""
LOCAL = ON_A_CLUSTER.replace("  redis: {secretRef: {name: redis}}\n", "").replace(
    "image: app:1", "command: [app]"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code_of(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        run(["validate", *words])
    return ended.value.code


def test_the_rules_of_a_cluster_are_the_default(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "queue.yaml").write_text(ON_A_CLUSTER)
    assert code_of("-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"file": "queue.yaml", "queues": ["shop.mails"]}
    (folder / "local.yaml").write_text(LOCAL)
    assert code_of("local.yaml") == 5
    errors = capsys.readouterr().err
    assert "spec.redis" in errors
    assert "spec.worker.image" in errors


def test_local_mode_has_rules_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "queue.yaml").write_text(LOCAL)
    assert code_of("--local") == 0
    assert capsys.readouterr().out == "queue.yaml: shop.mails is valid\n"
    (folder / "queue.yaml").write_text(ON_A_CLUSTER)
    assert code_of("--local") == 5
    assert "spec.worker.command" in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of() == 5
    assert "queue.yaml cannot be read (No such file or directory)" in capsys.readouterr().err
