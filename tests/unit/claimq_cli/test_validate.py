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


def test_what_only_a_cluster_requires_names_the_option(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "local.yaml").write_text(LOCAL.replace("maxReplicas: 2", "maxReplicas: none"))
    assert code_of("local.yaml") == 5
    named = {line.split(": ")[1] for line in capsys.readouterr().err.splitlines() if "with --local" in line}
    assert named == {"spec.redis", "spec.worker.image"}


def test_local_mode_has_rules_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "queue.yaml").write_text(LOCAL)
    assert code_of("--local") == 0
    assert capsys.readouterr().out == "queue.yaml: shop.mails is valid\n"
    (folder / "queue.yaml").write_text(ON_A_CLUSTER)
    assert code_of("--local") == 5
    assert "spec.worker.command" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("--local",)])
@pytest.mark.parametrize(
    ("program", "advice"),
    [
        ("python3 worker.py", '["python3", "worker.py"]'),
        ("python3 src/worker.py --fast", '["python3", "src/worker.py", "--fast"]'),
        ("python3 worker.py | cat", '["sh", "-c", "python3 worker.py | cat"]'),
    ],
)
def test_a_whole_command_line_as_one_word_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], program: str, advice: str
) -> None:
    manifest = yaml.safe_load(LOCAL if arguments else ON_A_CLUSTER)
    manifest["spec"]["worker"]["command"] = [program]
    (folder / "queue.yaml").write_text(yaml.safe_dump(manifest))
    assert code_of(*arguments) == 5
    problem = f'spec.worker.command[0]: is "{program}", and there is no program of that name; write {advice}'
    assert problem in capsys.readouterr().err


def test_an_empty_program_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "queue.yaml").write_text(LOCAL.replace("[app]", '[""]'))
    assert code_of("--local") == 5
    assert "spec.worker.command[0]: must not be empty; give a program" in capsys.readouterr().err


@pytest.mark.parametrize("program", ["my app/run it", "/opt/my app/run", "./run it"])
def test_a_program_may_have_blanks_in_its_path(folder: Path, program: str) -> None:
    if not program.startswith("/"):
        (folder / "my app").mkdir()
        (folder / program).write_text("#!/bin/sh")
        (folder / program).chmod(0o700)
        (folder / "queue.yaml").write_text(LOCAL.replace("[app]", f"['{program}']"))
        assert code_of("--local") == 0
    (folder / "queue.yaml").write_text(
        ON_A_CLUSTER.replace("image: app:1", f"image: app:1, command: ['{program}']")
    )
    assert code_of() == 0


def test_a_program_is_looked_for_in_the_directory_of_the_manifest(folder: Path) -> None:
    there = folder / "other"
    there.mkdir()
    (there / "run it").write_text("#!/bin/sh")
    (there / "run it").chmod(0o700)
    (there / "queue.yaml").write_text(LOCAL.replace("[app]", "['./run it']"))
    assert code_of("--local", "other/queue.yaml") == 0


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of() == 5
    assert "queue.yaml cannot be read (No such file or directory)" in capsys.readouterr().err
