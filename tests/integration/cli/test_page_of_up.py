"""The web page of `claimq up`."""

import os
import re
import signal
import stat
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from testkit.plugin import Claimq, StartUp
from testkit.waiting import eventually_sync
from testkit.web.web_user import WebUser


@pytest.fixture
def idle_spec() -> dict[str, object]:
    return {
        "worker": {"command": [sys.executable, "-c", "import time; time.sleep(600)"]},
        "scaling": {"maxReplicas": 1, "targetAge": "90s"},
    }


def get(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


def page_of(up: Any) -> str:
    """The address of its page, once it serves one."""
    up.until_says(r"web page: http://127\.0\.0\.1:\d+/")
    url: str = re.findall(r"web page: (http://\S+)", up.text)[0]
    return url


def acting_page_of(up: Any) -> tuple[str, Path]:
    """The address of its page, which allows changes, and the file with the token to log in with."""
    up.until_says(r"web page: http://[^;]+; the token to log in with is in \S*web-token")
    url, file = re.findall(r"web page: (http://[^; ]+)[^;]*; the token to log in with is in (\S+)", up.text)[
        0
    ]
    return url, Path(file)


def test_local_mode_serves_its_queues_with_target_and_decision(
    start_up: StartUp, claimq: Claimq, idle_spec: dict[str, object]
) -> None:
    up = start_up(idle_spec, "--web", "127.0.0.1:0")
    url = page_of(up)
    assert claimq("enqueue", "trial", "a", "b").code == 0

    def shown() -> str:
        text = get(f"{url}queues/trial")
        assert "1 worker wanted" in text
        assert "<dt>main</dt><dd>2</dd>" in text
        return text

    text = eventually_sync(shown)
    assert "target 90 s" in text
    assert "workers to start every item in time" in text
    assert "1 wanted" in get(url)
    assert '<th scope="row">ScalingActive</th><td>True</td><td>Auto</td>' in text
    assert "trial: 0 -&gt; 1 workers (FromZero): 2 items waiting" in text


def test_local_mode_shows_ready_workers_and_the_ends_of_processes(
    start_up: StartUp, claimq: Claimq, idle_spec: dict[str, object]
) -> None:
    up = start_up(idle_spec, "--web", "127.0.0.1:0")
    url = page_of(up)
    assert claimq("enqueue", "trial", "a").code == 0
    eventually_sync(lambda: "1 of 1 workers are ready." in get(f"{url}queues/trial"))
    assert ", 1 ready" in get(url)
    (app,) = up.until_pids("app", 1)
    os.kill(app, signal.SIGKILL)

    said = f'">1</td><td class="text">trial-1: its app (pid {app}) was killed by SIGKILL'
    eventually_sync(lambda: said in get(f"{url}queues/trial"))


def test_a_second_local_mode_chooses_a_free_port(
    start_up: StartUp, claimq: Claimq, idle_spec: dict[str, object]
) -> None:
    up = start_up(idle_spec)
    up.until_says(r"web page: http://127\.0\.0\.1:\d+/")
    address = re.findall(r"web page: http://(\S+)/", up.text)[0]
    refused = claimq("up", "-f", str(up.folder / "queue.yaml"), "--web", address)
    assert refused.code == 1
    assert f"cannot listen on {address}" in refused.err


def test_the_page_can_be_turned_off(start_up: StartUp, idle_spec: dict[str, object]) -> None:
    up = start_up(idle_spec, "--web", "off", "--until-empty", wait=False)
    eventually_sync(lambda: not up.process.is_running)
    assert up.process.returncode == 0
    assert "web page" not in up.text


def test_the_page_of_local_mode_listens_on_loopback_only(
    start_up: StartUp, idle_spec: dict[str, object]
) -> None:
    up = start_up(idle_spec, "--web", "0.0.0.0:0", wait=False)
    eventually_sync(lambda: not up.process.is_running)
    assert up.process.returncode == 2
    assert "other machines can reach 0.0.0.0" in up.text


def test_changes_and_metrics_need_the_token_in_the_state_directory(
    start_up: StartUp, claimq: Claimq, idle_spec: dict[str, object]
) -> None:
    up = start_up(idle_spec, "--web", "127.0.0.1:0", "--web-actions")
    url, file = acting_page_of(up)
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in up.text
    assert "Log in" in get(f"{url}queues/trial")
    form = urlencode({"token": token, "next": "/queues/trial"}).encode()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(f"{url}login", form) as answer:
        text, address = answer.read().decode(), answer.url
    assert "Pause</button>" in text
    found = re.search(r'name="form_token" value="([^"]+)"', text)
    assert found
    with opener.open(address, urlencode({"form_token": found[1], "action": "pause"}).encode()) as answer:
        assert "trial is paused" in answer.read().decode()
    assert claimq("audit", "trial", "-o", "json").json["records"][0]["action"] == "pause"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        opener.open(f"{url}metrics")
    request = urllib.request.Request(f"{url}metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as answer:
        assert b"claimq_queue_items{" in answer.read()


HOLDS = """
import pathlib, sys, time
import claimq.worker
folder = pathlib.Path(sys.argv[1])
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            (folder / f"held-{item.text}").touch()
            while not (folder / "go").exists():
                time.sleep(0.01)
"""


def test_workers_are_drained_one_by_one_and_all_at_once(
    start_up: StartUp, claimq: Claimq, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    spec = {
        "worker": {"command": command, "drainTimeout": "10m", "concurrency": 1},
        "scaling": {"minReplicas": 1, "maxReplicas": 1},
    }
    up = start_up(spec, "--web", "127.0.0.1:0", "--web-actions")
    url, file = acting_page_of(up)
    user = WebUser(url)
    assert user.log_in(file.read_text().strip()) == 303
    assert claimq("enqueue", "trial", "first", "second").code == 0
    eventually_sync((tmp_path / "held-first").exists)

    (worker,) = re.findall(r'name="worker" value="([^"]+)"', user.get("/queues/trial")[1])
    assert "not done: trial has no worker w0" in user.act("/queues/trial", action="drain", worker="w0")[1]
    assert f"{worker} is drained" in user.act("/queues/trial", action="drain", worker=worker)[1]
    eventually_sync((tmp_path / "held-second").exists)
    up.until_pids("app", 2)
    (tmp_path / "go").touch()
    up.until_pids("app", 1)

    def counters() -> tuple[int, int, int]:
        found = claimq("status", "trial", "-o", "json").json["counters"]
        return found["claimed"], found["done"], found["crashes"]

    eventually_sync(lambda: counters() == (2, 2, 0), why="the other worker has done its item too")
    actions = claimq("audit", "trial", "-o", "json").json["records"]
    assert ("drain", worker) in [(one["action"], one["target"]) for one in actions]

    assert "trial is suspended" in user.act("/queues/trial", action="suspend")[1]
    up.until_pids("app", 0)
    assert claimq("enqueue", "trial", "third").code == 0
    assert "End suspension" in user.get("/queues/trial")[1]
    assert "is not suspended any more" in user.act("/queues/trial", action="end-suspension")[1]
    eventually_sync((tmp_path / "held-third").exists)


def test_without_login_does_not_go_with_a_login(claimq: Claimq) -> None:
    answer = claimq("web", "--without-login", "--actions")
    assert (answer.code, "--without-login does not go with --actions" in answer.err) == (2, True)
