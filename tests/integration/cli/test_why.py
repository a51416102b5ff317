"""`claimq why` with a running local mode: the arithmetic of its last scaling decision."""

import json
import re
import sys
from pathlib import Path

import pytest

from claimq.waiting.texts import instant_text
from claimq_process.timestamps import format_time, parse_time
from testkit.plugin import Claimq, StartUp
from testkit.waiting import eventually_sync


@pytest.fixture
def idle_spec() -> dict[str, object]:
    return {"worker": {"command": [sys.executable, "-c", "import time; time.sleep(600)"]}, "scaling": {}}


def test_a_queue_of_local_mode_shows_why_it_has_its_workers(
    start_up: StartUp, claimq: Claimq, tmp_path: Path, idle_spec: dict[str, object]
) -> None:
    start_up({**idle_spec, "scaling": {"maxReplicas": 1, "targetAge": "10s", "itemsPerReplica": 2}})
    assert claimq("enqueue", "trial", *map(str, range(40))).code == 0

    def is_decided() -> bool:
        found = claimq("why", "trial", "-o", "json")
        return bool(found.code == 0 and found.json.get("limit") == "MaxReplicas")

    eventually_sync(is_decided, why="the decision on 40 items is shown")
    found = claimq("why", "trial", "-o", "json").json
    assert (found["queue"], found["replicas"], found["rule"]) == ("trial", 1, "MaxReplicas")
    assert (found["inputs"]["main"], found["demand"]["forItemsPerReplica"]) == (40, 20)
    assert found["source"] == str(tmp_path / ".claimq")
    text = claimq("why", "trial").out
    at = parse_time(found["at"])
    assert at is not None
    assert (found["at"], format_time(at)[-1]) == (format_time(at), "Z")
    assert text.startswith(f"trial: 1 worker (MaxReplicas), since {instant_text(at)}\n")
    assert re.search(r"^limited: .*maxReplicas is 1", text, re.MULTILINE), text
    waits = claimq(
        "item", "show", "trial", claimq("items", "trial", "main", "-o", "json").json["items"][0]["item"]["id"]
    ).out
    assert re.search(r"^waits: +no worker .*: .*maxReplicas is 1", waits, re.MULTILINE), waits
    status = claimq("status", "trial")
    assert "trial: too few workers: " in status.out, status.out
    assert claimq("pause", "trial", "--client", "ann").code == 0
    paused = claimq("status", "trial").out
    assert "trial: the client ann is paused by " in paused, paused
    assert "trial: too few workers: " in paused, paused
    (limited,) = (
        one
        for one in claimq("status", "-o", "json").json["queues"][0]["conditions"]
        if one["type"] == "ScalingLimited"
    )
    assert (limited["status"], limited["reason"]) == ("True", "MaxReplicas")
    for row in ("items waiting", "workers for itemsPerReplica", "workers to start every item in time"):
        assert row in text, text


def test_why_and_doctor_name_the_cause_while_no_app_can_be_started(start_up: StartUp, claimq: Claimq) -> None:
    spec = {"worker": {"command": ["./wroker"]}, "scaling": {"mode": "Manual", "replicas": 1}}
    up = start_up(spec)
    claimq("enqueue", "trial", "a")
    up.until_says("exited with code 127")
    cause = "its app exited with code 127 (command not found), and is started again"

    def claims() -> str:
        checks = claimq("doctor", "trial", "-o", "json").json["checks"]
        return str(next(check["message"] for check in checks if check["check"] == "queue trial: claims"))

    eventually_sync(lambda: cause in claimq("why", "trial").out, why="why names the cause", within=60)
    eventually_sync(lambda: cause in claims(), why="doctor names the cause", within=60)


def test_a_queue_that_local_mode_does_not_run_is_not_looked_up_elsewhere_with_data(
    start_up: StartUp, claimq: Claimq, tmp_path: Path, idle_spec: dict[str, object]
) -> None:
    start_up(idle_spec)
    found = claimq("why", "default.other", "--data", str(tmp_path / ".claimq"))
    assert (found.code, found.out) == (1, "")
    assert "no `claimq up` with the queue default.other is running in" in found.err


def test_a_misspelled_queue_of_local_mode_is_refused_with_the_one_that_is_meant(
    start_up: StartUp,
    claimq: Claimq,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    idle_spec: dict[str, object],
) -> None:
    start_up(idle_spec)
    eventually_sync(lambda: claimq("why", "trial").code == 0, why="there is a decision")
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(
        "#!/bin/sh\necho 'The connection to the server localhost:8080 was refused' >&2\nexit 1\n"
    )
    kubectl.chmod(0o700)
    monkeypatch.setenv("PATH", str(kubectl.parent))
    for more in ([], ["--data", str(tmp_path / ".claimq")]):
        found = claimq("why", "trail", *more)
        assert (found.code, found.out) == (1, "")
        assert "did you mean trial?" in found.err


def test_without_local_mode_and_without_kubectl_the_error_names_both_and_doctor(
    claimq: Claimq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = claimq("why", "thumbs")
    assert (found.code, found.out) == (1, "")
    assert "no running `claimq up` has the queue thumbs; without a manifest nothing scales it" in found.err
    assert "and `claimq doctor thumbs` checks it (kubectl, which reads ReliableQueues" in found.err


def test_a_queue_of_a_cluster_has_the_sentence_of_no_progress(
    claimq: Claimq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sentence = "no progress: items wait; replace it: claimq -n media drain thumbs a.1"
    stuck = {"type": "Progressing", "status": "False", "reason": "NoProgress", "message": sentence}
    status = {"scaling": {"rule": "Target", "replicas": 2, "reason": "many items"}, "conditions": [stuck]}
    body = {"metadata": {"namespace": "media", "name": "thumbs"}, "status": status}
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\necho '{json.dumps(body)}'\n")
    kubectl.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = claimq("why", "-n", "media", "thumbs").out
    assert text.splitlines()[1:3] == [sentence, "many items"]
    assert claimq("why", "-n", "media", "thumbs", "-o", "json").json["attention"] == sentence
