"""What `helm test` runs: the two programs that the chart carries, on a real server."""

import os
import subprocess
import sys
import threading

import pytest

from testkit.repository.chart import FOLDER, Chart, of_kind
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

PROGRAM = FOLDER / "files" / "helm_test.py"


def run(server: Server, timeout: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "REDIS_URL": server.url,
        "QUEUE": "media.q-test",
        "NAMESPACE": "media",
        "TIMEOUT": timeout,
    }
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text()],
        env=env,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )


def test_it_passes_when_a_worker_has_done_the_item(valkey: Server) -> None:
    def work() -> None:
        with open_blocking_queue(valkey.url, "media.q-test") as queue:
            queue.done(queue.claim(wait=PATIENCE))

    worker = threading.Thread(target=work)
    worker.start()
    said = run(valkey, f"{PATIENCE:g}s")
    worker.join()
    assert said.returncode == 0, said.stderr
    assert "enqueued an item in media.q-test" in said.stdout
    assert "a worker has done it, after" in said.stdout


@pytest.mark.parametrize("seconds", [0, 1])
def test_it_fails_when_no_worker_runs_and_says_where_to_look(valkey: Server, seconds: int) -> None:
    said = run(valkey, f"{seconds}s")
    assert said.returncode == 1
    assert f"not done after {seconds} s (main 1," in said.stdout
    assert "kubectl describe reliablequeue q-test" in said.stdout


def test_it_fails_in_one_line_when_no_server_answers(valkey: Server) -> None:
    valkey.stop()
    said = run(valkey, "1s")
    assert said.returncode == 1
    assert "Traceback" not in said.stderr
    assert said.stderr.endswith("; see the pods and volumes of the server: kubectl get pods,pvc\n")


def test_the_rendered_programs_are_the_files(chart: Chart) -> None:
    objects = chart.objects("valkey.enabled=true")
    (pod,), (queue,) = of_kind(objects, "Pod"), of_kind(objects, "ReliableQueue")
    assert pod["spec"]["containers"][0]["args"] == [PROGRAM.read_text()]
    worker = FOLDER / "files" / "helm_test_worker.py"
    assert queue["spec"]["worker"]["args"] == [worker.read_text()]
