"""`claimq up` with real processes: it scales, restarts what dies, drains, and leaves nothing behind."""

import contextlib
import http.client
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import claimq.blocking as library
from claimq_local.processes import process_table
from testkit.plugin import Claimq, StartUp
from testkit.programs.processes import Process
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import UnixConnection

WORKER = """
import os, pathlib, sys, time
import claimq.worker
folder = pathlib.Path(sys.argv[1])
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            if item.text.startswith("hold"):
                (folder / f"held-{item.text}-{os.getpid()}").touch()
                while not (folder / "go").exists():
                    time.sleep(0.01)
            if item.text.startswith("broken"):
                raise ValueError("it is broken")
            with (folder / "done").open("a") as results:
                results.write(item.text + "\\n")
"""


@pytest.fixture
def worker(tmp_path: Path) -> list[str]:
    """The command of a worker that writes down what it did; it holds an item that says so until `go` is there."""
    (tmp_path / "worker.py").write_text(WORKER)
    return [sys.executable, str(tmp_path / "worker.py"), str(tmp_path)]


def spec(command: list[str], **scaling: object) -> dict[str, object]:
    scaling = {"maxReplicas": 2, "itemsPerReplica": 2, "idleAfter": "1s", **scaling}
    return {
        "worker": {"command": command, "drainTimeout": "10m"},
        "scaling": {**scaling, "scaleDown": {"stabilizationWindow": "0s"}},
        "requeueLimit": 1,
    }


def done(folder: Path) -> list[str]:
    file = folder / "done"
    return sorted(file.read_text().split()) if file.exists() else []


def held(folder: Path) -> list[Path]:
    return list(folder.glob("held-*"))


def test_items_are_worked_on_by_workers_that_come_and_go(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up(spec(worker))
    assert up.pids("app") == up.pids("sidecar") == []
    assert len(up.pids("valkey")) == 1
    assert claimq("enqueue", "trial", "a", "b", "c", "broken").code == 0
    eventually_sync(lambda: done(tmp_path) == ["a", "b", "c"])
    up.until_says(r"0 -> 2 workers \(ItemsPerReplica\): 4 items waiting")
    up.until_says(r"-> 0 workers \(Idle\): idle for 1 s or longer")
    up.until_pids("app", 0)
    up.until_pids("sidecar", 0)
    (failed,) = claimq("items", "trial", "failed", "-o", "json").json["items"]
    assert (failed["item"]["text"], failed["item"]["requeue_count"]) == ("broken", 1)
    assert "it is broken" in failed["item"]["last_error"]


def test_other_commands_find_it_from_anywhere(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_up(spec(worker))
    (tmp_path / "below").mkdir()
    for place in (tmp_path, tmp_path / "below", Path("/")):
        monkeypatch.chdir(place)
        assert [one["queue"] for one in claimq("status", "-o", "json").json["queues"]] == ["trial"]
    assert claimq("status", "trial", "--data", str(tmp_path / ".claimq")).code == 0
    answer = claimq("status", "other")
    assert (answer.code, "has no queue other, only trial" in answer.err) == (1, True)
    assert "settings of the server: no unsafe settings\n" in claimq("doctor").out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_workers_finish_what_they_have_and_leaves_nothing(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    up = start_up(spec(worker))
    claimq("enqueue", "trial", "hold-1", "hold-2")
    eventually_sync(lambda: held(tmp_path))
    assert up.left()
    up.process.send(number)
    up.until_says("stopping: workers finish their items; press Ctrl-C again to stop immediately")
    (tmp_path / "go").touch()
    assert up.process.wait() == 0
    assert up.left() == []
    assert not up.directory.state_file.exists()
    assert len(done(tmp_path)) == len(held(tmp_path)), "what was in progress was finished"
    up.again()
    counts = claimq("status", "trial", "-o", "json").json
    assert counts["counters"].get("crashes", 0) == 0
    assert counts["counters"].get("done", 0) + counts["lengths"]["main"] + counts["lengths"]["busy"] >= 2


def test_no_local_user_without_the_key_ends_the_claims_of_a_worker(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up(spec(worker, maxReplicas=1))
    claimq("enqueue", "trial", "hold-1")
    eventually_sync(lambda: held(tmp_path))
    (socket,) = Path(up.state.sockets).glob("*-trial-*.sock")

    def info() -> Any:
        with contextlib.closing(UnixConnection(socket)) as connection:
            return connection.ask("GET", "/v1/info").json

    port = info()["health_port"]
    for method, path in (("GET", "/drain"), ("POST", "/drain"), ("POST", "/worker/prestop")):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request(method, path)
        assert connection.getresponse().status == 403
        connection.close()
    assert not info()["draining"]
    up.process.send(signal.SIGTERM)
    eventually_sync(lambda: info()["draining"])
    (tmp_path / "go").touch()
    assert up.process.wait() == 0
    assert done(tmp_path) == ["hold-1"], "claimq up itself has the key: its drain waited for the item"


def test_a_second_signal_gives_back_what_is_in_flight(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up(spec(worker, maxReplicas=1))
    claimq("enqueue", "trial", "hold-1")
    eventually_sync(lambda: held(tmp_path))
    up.process.send(signal.SIGTERM)
    up.until_says("stopping")
    up.process.send(signal.SIGTERM)
    assert up.process.wait() == 0
    assert up.left() == []
    (tmp_path / "go").touch()
    up.again()
    eventually_sync(lambda: done(tmp_path) == ["hold-1"])
    eventually_sync(lambda: claimq("status", "trial", "-o", "json").json["counters"]["done"] == 1)
    assert claimq("status", "trial", "-o", "json").json["counters"]["crashes"] == 0


def test_after_a_sigkill_the_next_start_clears_the_remains_and_gives_the_items_back(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    (tmp_path / "leaver.sh").write_text('(setsid sleep 300 &)\nsleep 300 &\nexec "$@"\n')
    up = start_up(spec(["sh", str(tmp_path / "leaver.sh"), *worker], maxReplicas=1))
    claimq("enqueue", "trial", "hold-1")
    eventually_sync(lambda: held(tmp_path))
    mark = up.state.mark
    bystander = Process(["sleep", "300"])
    up.process.kill9()
    eventually_sync(
        lambda: len(list(process_table.marked(mark))) == 2, why="the kernel kills all but what the app left"
    )
    (tmp_path / "go").touch()
    up.again()
    assert list(process_table.marked(mark)) == []
    assert bystander.is_running
    bystander.kill9()
    eventually_sync(lambda: done(tmp_path) == ["hold-1"])
    assert up.process.terminate() == 0
    assert up.left() == []


def test_it_continues_when_its_output_is_closed(start_up: StartUp, claimq: Claimq, tmp_path: Path) -> None:
    up = start_up({"worker": {"command": ["sleep", "60"]}, "scaling": {"minReplicas": 1}}, wait=False)
    up.process.kill9()
    script = f"{sys.executable} -m claimq_cli up -f queue.yaml & echo $! > pid; wait $!; echo $? > code"
    (tmp_path / "reader.sh").write_text(script)
    reader = Process(["sh", "-c", "sh reader.sh | head -n 1"], cwd=tmp_path)
    eventually_sync(lambda: claimq("workers", "trial").code == 0)
    eventually_sync(lambda: len([one for one in up.directory.read().processes if one.role == "app"]) == 1)
    Process(["kill", "-TERM", (tmp_path / "pid").read_text().strip()]).wait()
    eventually_sync(lambda: (tmp_path / "code").exists() and (tmp_path / "code").read_text() == "0\n")
    assert reader.wait() == 0
    assert up.left() == []


def test_only_one_runs_in_a_directory(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up(spec(worker))
    answer = claimq("up", "-f", str(tmp_path / "queue.yaml"))
    assert (answer.code, answer.err.count("\n")) == (1, 1)
    stop = f"stop it with Ctrl-C or `kill {up.process.pid}`"
    assert f"claimq up is already running in {tmp_path / '.claimq'}; {stop}" in answer.err
    assert claimq("status", "trial").code == 0


def test_an_app_that_exits_at_once_is_restarted_with_backoff_and_its_output_shown(
    start_up: StartUp,
) -> None:
    up = start_up(spec(["sh", "-c", "echo no such model >&2; exit 3"], minReplicas=1))
    for wait in ("500 ms", "1 s", "2 s"):
        up.until_says(rf"trial-1: its app \(pid \d+\) exited with code 3; restarting in {wait}")
    assert "    no such model" in up.text
    assert up.process.terminate() == 0
    assert up.left() == []


@pytest.mark.parametrize("start", ["sleep 3000", "env -i sleep 3000"])
def test_what_an_app_leaves_behind_ends_with_it(start_up: StartUp, tmp_path: Path, start: str) -> None:
    left = tmp_path / "left"
    up = start_up(spec(["sh", "-c", f"{start} & echo $! >> {left}; exit 1"], minReplicas=1))
    up.until_says("restarting in 1 s")
    up.until_says("restarting in 2 s")
    assert len(left.read_text().split()) >= 3
    # Between two starts of the app, which go on.
    eventually_sync(lambda: not any(process_table.identify(int(pid)) for pid in left.read_text().split()))


def test_a_command_that_does_not_exist_is_reported(start_up: StartUp) -> None:
    up = start_up(spec(["./no-such-program"], minReplicas=1))
    up.until_says(
        "cannot start ./no-such-program: No such file or directory; correct the command or its PATH"
    )


def test_a_killed_app_is_replaced_and_its_item_comes_back_at_once(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up({**spec(worker, maxReplicas=1), "busyExpiry": "1h"})
    claimq("enqueue", "trial", "hold-1")
    eventually_sync(lambda: held(tmp_path))
    (app,) = up.until_pids("app", 1)
    os.kill(app, signal.SIGKILL)
    (tmp_path / "go").touch()
    eventually_sync(lambda: done(tmp_path) == ["hold-1"])
    up.until_says(r"its app \(pid \d+\) was killed by SIGKILL; restarting in 500 ms")


def test_a_killed_sidecar_is_replaced_and_its_items_come_back_at_once(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up({**spec(worker, maxReplicas=1), "busyExpiry": "1h", "requeueLimit": 5})
    claimq("enqueue", "trial", "hold-1")
    eventually_sync(lambda: held(tmp_path))
    (sidecar,) = up.until_pids("sidecar", 1)
    Process(["kill", "-KILL", str(sidecar)]).wait()
    up.until_says(r"trial-1: 1 item given back: its sidecar was killed by SIGKILL")
    (tmp_path / "go").touch()
    eventually_sync(lambda: claimq("status", "trial", "-o", "json").json["counters"].get("done") == 1)
    counts = claimq("status", "trial", "-o", "json").json
    assert (counts["counters"]["crashes"], counts["lengths"]["main"]) == (1, 0)


def test_a_killed_valkey_is_restarted_with_everything_that_was_acknowledged(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    up = start_up(spec(worker, maxReplicas=1))
    (valkey,) = up.pids("valkey")
    claimq("enqueue", "trial", "hold-1", "b", "c")
    eventually_sync(lambda: held(tmp_path))
    Process(["kill", "-KILL", str(valkey)]).wait()
    up.until_says(r"the Valkey \(pid \d+\) was killed by SIGKILL; restarting in 500 ms")
    (tmp_path / "go").touch()
    eventually_sync(lambda: done(tmp_path) == ["b", "c", "hold-1"])
    assert up.until_pids("valkey", 1) != [valkey]


def test_items_stay_for_the_next_start(start_up: StartUp, claimq: Claimq, tmp_path: Path) -> None:
    up = start_up({"worker": {"command": ["false"]}, "suspend": True})
    claimq("enqueue", "trial", "a", "b")
    assert up.pids("app") == []
    assert up.process.terminate() == 0
    up.again()
    assert claimq("status", "trial", "-o", "json").json["lengths"]["main"] == 2


def test_with_a_url_it_brings_no_server_and_ends_when_no_item_is_left(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    server = start_server("valkey", dict(DURABLE))
    claimq("enqueue", "trial", "a", "b", "broken", "--redis", server.url)
    up = start_up(spec(worker), "--redis", server.url, "--until-empty", wait=False)
    assert up.process.wait() == 0
    assert done(tmp_path) == ["a", "b"]
    assert "main, busy and delayed are empty" in up.text
    assert not (up.directory.valkey / "appendonlydir").exists()
    lengths = claimq("status", "trial", "--redis", server.url, "-o", "json").json["lengths"]
    assert lengths == {"main": 0, "busy": 0, "delayed": 0, "failed": 1}


def test_a_server_that_goes_away_takes_no_worker_away(
    start_up: StartUp, worker: list[str], start_server: Callable[..., Server]
) -> None:
    server = start_server("valkey", dict(DURABLE))
    up = start_up(spec(worker, minReplicas=1), "--redis", server.url)
    apps = up.until_pids("app", 1)
    server.kill9()
    up.until_says(r"trial: .*(no answer|cannot|does not answer)")
    up.until_says(r"trial: RedisUnreachable: .*; the number of workers is kept")
    assert up.pids("app") == apps
    server.start()
    up.until_says(r"trial: RedisReachable: ")
    assert up.process.terminate() == 0
    assert up.left() == []


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"redis": {"url": "redis://127.0.0.1:1/0"}}, 3, "start the server and try again"),
        ({"scaling": {"minReplicas": 9, "maxReplicas": 2}}, 5, "spec.scaling"),
        ({"wroker": {}}, 5, "spec.wroker: is not a field"),
    ],
)
def test_what_cannot_start_says_why_and_leaves_nothing(
    start_up: StartUp, change: dict[str, object], code: int, words: str
) -> None:
    up = start_up({"worker": {"command": ["false"]}, **change}, wait=False)
    assert up.process.wait() == code
    assert words in up.text
    assert "Traceback" not in up.text
    assert not up.directory.state_file.exists()
    assert up.left() == []


def test_a_manifest_whose_server_is_in_a_clusters_secret_gets_one_of_its_own(
    start_up: StartUp, worker: list[str], claimq: Claimq, tmp_path: Path
) -> None:
    redis = {"secretRef": {"name": "redis"}, "user": "user-of-the-cluster"}
    up = start_up({**spec(worker), "redis": redis})
    up.until_says("trial: spec.redis refers to the Secret redis, which `claimq up` cannot read")
    claimq("enqueue", "trial", "one")
    eventually_sync(lambda: done(tmp_path) == ["one"])


def test_the_library_and_the_command_find_the_running_local_mode(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    start_up(spec(worker))
    with library.connect() as server:
        server.queue("trial").enqueue("by the library")
    eventually_sync(lambda: done(tmp_path) == ["by", "library", "the"])
    answer = claimq("url")
    assert answer.code == 0
    assert answer.out.startswith("unix://")
    assert claimq("status", "trial", "--redis", answer.out.strip()).code == 0


def test_a_url_with_a_password_is_printed_only_on_request(claimq: Claimq) -> None:
    url = "redis://:geheim@db.example:6379/0"
    answer = claimq("url", "--redis", url)
    assert (answer.code, answer.out) == (1, "")
    assert "geheim" not in answer.err
    assert claimq("url", "--redis", url, "--show-password").out == url + "\n"


def test_an_item_that_kills_its_app_reaches_failed_with_the_cause(
    start_up: StartUp, claimq: Claimq, worker: list[str], tmp_path: Path
) -> None:
    killed = tmp_path / "kills.py"
    killed.write_text(
        "import claimq.worker, os\n"
        "with claimq.worker.connect() as worker:\n"
        "    for item in worker.items():\n"
        "        with item:\n"
        "            os.kill(os.getpid(), 9)\n"
    )
    start_up({**spec([sys.executable, str(killed)]), "requeueLimit": 0})
    assert claimq("enqueue", "trial", "poison").code == 0

    def cause() -> str:
        items = claimq("items", "trial", "failed", "-o", "json").json["items"]
        return str(items[0]["item"]["last_error"]) if items else ""

    eventually_sync(lambda: cause() == "its app was killed by SIGKILL")
