"""The process: how it starts, what it logs, how small it is."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from testkit.programs.logfmt import read_log
from testkit.programs.processes import Process
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar, UnixConnection


def test_bad_settings_end_it_with_2_and_one_line_for_each() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CLAIMQ_")}
    done = subprocess.run(
        [sys.executable, "-m", "claimq_sidecar"],
        env=environ | {"CLAIMQ_HEALTH_PORT": "x"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "CLAIMQ_REDIS_URL",
        "CLAIMQ_QUEUE",
        "CLAIMQ_HEALTH_PORT",
    ]


STARTED = """
import gc
import claimq_sidecar.app
from claimq_sidecar.__main__ import main

async def run(*_):
    assert gc.isenabled() and gc.get_freeze_count() and gc.get_threshold()[0] == 10_000
    return 0

claimq_sidecar.app.run = run
raise SystemExit(main())
"""


def test_garbage_is_collected_after_the_start() -> None:
    """It is not while modules load."""
    sidecar = Sidecar("unix:///nowhere")
    with closing(sidecar):
        subprocess.run([sys.executable, "-c", STARTED], env={**os.environ, **sidecar.env}, check=True)


SLOW_IMPORT = """
import os, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        while name == "claimq_sidecar.app" and not os.path.exists(os.environ["GATE"]):
            time.sleep(0.01)

sys.meta_path.insert(0, Slow())
"""
"""As sitecustomize.py: the sidecar's imports last until the file GATE is there."""


def test_an_app_that_starts_at_the_same_time_connects_and_is_answered_later(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    """A pod's app is started right after its sidecar, which needs a while for its imports."""
    queue.enqueue("a")
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORT)
    gate = tmp_path / "gate"
    sidecar = Sidecar(valkey.url)
    environ = {**sidecar.env, "GATE": str(gate), "PYTHONPATH": str(tmp_path)}
    process = Process([sys.executable, "-m", "claimq_sidecar"], log=sidecar.log, env=environ)
    try:
        eventually_sync(sidecar.socket.exists)
        with closing(UnixConnection(sidecar.socket)) as app:
            app.request("POST", "/v1/claim", json.dumps({"max": 1, "wait": 0}))
            gate.touch()
            claims = json.loads(app.getresponse().read())["claims"]
        assert [claim["payload_base64"] for claim in claims] == ["YQ=="]
        process.terminate()
        assert not sidecar.socket.exists()
    finally:
        process.kill9()
        sidecar.close()


def test_bad_settings_leave_no_socket(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CLAIMQ_")}
    environ["CLAIMQ_SOCKET"] = str(socket)
    done = subprocess.run(
        [sys.executable, "-m", "claimq_sidecar"], env=environ, capture_output=True, check=False
    )
    assert (done.returncode, socket.exists()) == (2, False)


def test_it_is_small_when_idle(valkey: Server, start_sidecar: StartSidecar) -> None:
    """How soon it is ready is for the benchmarks to say."""
    assert start_sidecar(valkey.url, wrapper=("env",)).rss_mb < 50


def test_40_000_verdicts_leave_its_memory_as_it_was(valkey: Server, start_sidecar: StartSidecar) -> None:
    sidecar = start_sidecar(valkey.url, wrapper=("env",))
    assert sidecar.claim() == []  # what a program loads at its first call is no growth
    before = sidecar.rss_mb
    for _ in range(40):
        sidecar.post("/v1/enqueue", items=[{"payload": {"n": number}} for number in range(1000)])
        count = 0
        while count < 1000:
            tokens = [claim["token"] for claim in sidecar.claim(100)]
            sidecar.outcomes("done", *tokens)
            count += len(tokens)
    assert sidecar.rss_mb <= 1.05 * before


def test_a_taken_health_port_is_named(sidecar: Sidecar, valkey: Server) -> None:
    other = Sidecar(valkey.url, health_port=str(sidecar.health_port))
    with pytest.raises(RuntimeError, match="set CLAIMQ_HEALTH_HOST and CLAIMQ_HEALTH_PORT"):
        other.start()
    assert not other.socket.exists()
    other.close()


def test_logs_are_one_line_an_event_without_payloads_and_secrets(
    valkey: Server, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(
        valkey.url, log_level="debug", redis_username="default", redis_password="hush-hush"
    )
    sidecar.post("/v1/enqueue", items=[{"text": "canary-payload"}])
    session = sidecar.open_session()
    sidecar.claim(1, session=session.id)
    sidecar.ask("POST", "/v1/enqueue", b'{"canary-payload')
    sidecar.ask("GET", "/canary-path\nx".replace("\n", "%0A"))
    session.close()
    eventually_sync(lambda: "event=session_closed" in sidecar.log_text)
    sidecar.running.terminate()
    assert {"serving", "session_opened", "session_closed"} <= {
        line["event"] for line in read_log(sidecar.log_text)
    }
    assert "canary" not in sidecar.log_text
    assert "hush" not in sidecar.log_text


def test_metrics_count_what_happens_with_labels_from_fixed_sets(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    sidecar.post("/v1/enqueue", items=[{"text": "a"}, {"text": "b"}, {"text": "c"}])
    session = sidecar.open_session()
    a, _ = sidecar.claim(2, session=session.id)
    sidecar.outcomes("done", a["token"])
    sidecar.outcomes("done", a["token"])
    for number in range(5):
        sidecar.ask("GET", f"/nothing/{number}")
    assert sidecar.metric("claimq_sidecar_enqueued_items_total") == 3
    assert sidecar.metric("claimq_sidecar_claimed_items_total") == 2
    assert sidecar.metric('claimq_sidecar_verdicts_total{verdict="done"}') == 1
    assert sidecar.metric('claimq_sidecar_verdicts_total{verdict="already_done"}') == 1
    assert (sidecar.metric("claimq_sidecar_claims_in_flight"), sidecar.metric("claimq_sidecar_sessions")) == (
        1,
        1,
    )
    assert sidecar.metric('claimq_sidecar_request_seconds_count{path="other",status="404"}') == 5
    assert sidecar.metric('claimq_sidecar_request_seconds_count{path="/v1/claim",status="200"}') == 1
    assert 0 <= sidecar.metric("claimq_sidecar_store_response_age_seconds") < 60
    session.close()
    eventually_sync(lambda: sidecar.metric('claimq_sidecar_given_back_items_total{cause="crashed"}') == 1)
    assert b"/nothing" not in sidecar.health("/metrics").body


def test_the_wait_of_a_claim_is_no_part_of_its_duration(sidecar: Sidecar) -> None:
    name = 'claimq_sidecar_request_seconds_sum{path="/v1/claim",status="200"}'

    def is_no_part() -> bool:
        """On a busy machine the rest of a request may take long, but not of each."""
        before = sidecar.metric(name)
        sidecar.claim(1, wait=5)
        return sidecar.metric(name) - before < 4

    eventually_sync(is_no_part)


def test_the_health_port_refuses_what_it_does_not_serve(sidecar: Sidecar) -> None:
    answer = sidecar.health("/v1/claim")
    assert answer.status == 404
    assert "/healthz, /readyz, /metrics, /drain, /worker/livez" in json.loads(answer.body)["detail"]
