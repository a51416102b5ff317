"""Programs that gevent or eventlet has patched: blocking calls work with gevent, the rest is refused at once."""

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.plugin import ServerFactory
from testkit.servers.patient import open_blocking_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

WEB_APP = """
import os, threading
import claimq.blocking
from claimq.tasks import App

tasks = App("mail", url=os.environ["URL"])
lock = threading.Lock()
servers = []

@tasks.task
def send(address):
    pass

def application(environ, start):
    try:
        with lock:
            if not servers:
                servers.append(claimq.blocking.connect(os.environ["URL"]))
        send.enqueue("ann@example.com")
        servers[0].queue("other").enqueue_many(["a", "b"])
        start("200 OK", [])
        return [b"stored"]
    except Exception as error:
        start("500 Internal Server Error", [])
        return [repr(error).encode()]
"""
GREENLETS = """
import gevent.monkey
gevent.monkey.patch_all(**PATCHES)
import sys
import gevent, claimq.blocking

patient = {"retry_for": 300, "reply_timeout": 300, "connect_timeout": 300}
server = claimq.blocking.connect(
    settings=claimq.RedisSettings(sys.argv[1], ca_file=sys.argv[2] or None, **patient)
)
queue = server.queue("q")
calls = [gevent.spawn(queue.enqueue, "a") for _ in range(50)]
calls += [gevent.spawn(queue.enqueue_many, ["b", "c"]) for _ in range(50)]
gevent.joinall(calls, timeout=300, raise_error=True)
print("stored", queue.length())
while claims := queue.claim(100):
    for claim in claims:
        queue.done(claim)
waiting = gevent.spawn(queue.claim, wait=300)
gevent.sleep(0.1)
queue.enqueue("late")
print("claimed", *(claim.item.payload.decode() for claim in waiting.get(timeout=300)))
try:
    with gevent.Timeout(0.1):
        queue.claim(wait=60)
except gevent.Timeout:
    print("interrupted")
print("stored", queue.length())
"""
WORKS = ["stored 150", "claimed late", "interrupted", "stored 0"]
GEVENT = "import gevent.monkey; gevent.monkey.patch_all()"
EVENTLET = "import eventlet; eventlet.monkey_patch()"
NO_THREADS = "gevent has replaced sockets, but not threads, so every call would stop all greenlets; "
NO_EVENTLET = "claimq.blocking does not work where eventlet has replaced threads and sockets; "
REPLACED = "needs real threads, which gevent has replaced in this process: "
REFUSALS = [
    (
        "import gevent.monkey; gevent.monkey.patch_all(thread=False)",
        "claimq.blocking.connect()",
        f"{NO_THREADS}call gevent.monkey.patch_all() without thread=False",
    ),
    (
        EVENTLET,
        "claimq.blocking.connect()",
        f"{NO_EVENTLET}run this process without eventlet, or with gevent",
    ),
    (
        EVENTLET,
        "App('mail').task(print).enqueue()",
        f"{NO_EVENTLET}run this process without eventlet, or with gevent",
    ),
    (
        GEVENT,
        "claimq.blocking.connect().queue('q').consume(print)",
        f"consume() {REPLACED}consume in a process without monkey patching",
    ),
    (
        GEVENT,
        "App('mail').run()",
        f"an app that works on its tasks {REPLACED}run it in a process without monkey patching",
    ),
    (
        GEVENT,
        "claimq.blocking.connect(client=redis.Redis())",
        f"a redis.Redis as client {REPLACED}give the URL or the settings of the server instead",
    ),
]


@contextmanager
def gunicorn(folder: Path, url: str) -> Generator[Path]:
    """The web app behind two worker processes that gevent has patched; the Unix socket of the server."""
    (folder / "webapp.py").write_text(WEB_APP)
    place, log = folder / "socket", folder / "log"
    command = [
        sys.executable, "-m", "gunicorn", "-k", "gevent", "-w", "2", "-b", f"unix:{place}", "--no-control-socket",
        "--error-logfile", str(log), "webapp:application",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "URL": url})
    try:
        eventually_sync(lambda: log.exists() and log.read_text().count("Booting worker") == 2)
        yield place
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def reply_of(place: Path) -> str:
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.connect(str(place))
        connection.request("GET", "/")
        return connection.getresponse().read().decode()


def program(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text, *arguments]
    environment = {**os.environ, "CLAIMQ_REDIS_URL": "unix:///nowhere"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_every_request_behind_gunicorn_with_gevent_enqueues(valkey: Server, tmp_path: Path) -> None:
    with gunicorn(tmp_path, valkey.url) as place, ThreadPoolExecutor(20) as threads:
        replies = list(threads.map(reply_of, [place] * 40))
    assert replies == ["stored"] * 40
    with open_blocking_server(valkey.url) as server:
        assert server.queue("mail").length() == 40
        assert server.queue("other").length() == 80


@pytest.mark.parametrize("patches", ["{}", "{'select': False}", "{'socket': False}"])
@pytest.mark.parametrize("end", ["server.close()", ""])
def test_greenlets_of_gevent_enqueue_and_claim(valkey: Server, patches: str, end: str) -> None:
    ended = program(GREENLETS.replace("PATCHES", patches) + end, valkey.url, "")
    assert (ended.stdout.splitlines(), ended.stderr, ended.returncode) == (WORKS, "", 0)


@pytest.mark.parametrize("end", ["server.close()", ""])
def test_greenlets_of_gevent_reach_a_server_by_name_and_tls(start_server: ServerFactory, end: str) -> None:
    server = start_server("redis7", tls=True)
    assert server.certificates is not None
    url = server.tcp_url.replace("127.0.0.1", "localhost")
    ended = program(GREENLETS.replace("PATCHES", "{}") + end, url, str(server.certificates.ca_file))
    assert (ended.stdout.splitlines(), ended.stderr, ended.returncode) == (WORKS, "", 0)


def test_an_outage_raises_and_leaves_other_greenlets_alone(start_server: ServerFactory) -> None:
    server = start_server()
    server.kill9()
    text = """
import gevent.monkey
gevent.monkey.patch_all()
import sys
import gevent, claimq.blocking

def count():
    while True:
        beats.append(gevent.sleep(0.01))

beats = []
gevent.spawn(count)
server = claimq.blocking.connect(settings=claimq.RedisSettings(sys.argv[1], retry_for=1))
for call in (server.queue("q").enqueue, server.queue("q").enqueue_many):
    before = len(beats)
    try:
        call(["a"])
    except claimq.StoreUnavailable:
        print("unavailable", len(beats) > before + 5)
"""
    for url in (server.url, "redis://127.0.0.1:1"):
        ended = program(text, url)
        assert (ended.stdout.splitlines(), ended.stderr) == (["unavailable True"] * 2, "")


@pytest.mark.parametrize("reason", ["Timeout", "KeyError"])
def test_a_timeout_of_gevent_ends_a_call_that_has_no_reply(start_server: ServerFactory, reason: str) -> None:
    server = start_server()
    text = """
import gevent.monkey
gevent.monkey.patch_all()
import os, signal, sys
import gevent, claimq.blocking

server = claimq.blocking.connect(settings=claimq.RedisSettings(sys.argv[1], reply_timeout=60, retry_for=60))
queue = server.queue("q")
queue.enqueue("first")
reason = {"KeyError": KeyError}.get(sys.argv[3])
os.kill(int(sys.argv[2]), signal.SIGSTOP)
try:
    with gevent.Timeout(0.2, reason):
        queue.enqueue("second")
except (gevent.Timeout, KeyError) as error:
    print(type(error).__name__)
finally:
    os.kill(int(sys.argv[2]), signal.SIGCONT)
"""
    assert server.process is not None
    ended = program(text, server.url, str(server.process.pid), reason)
    assert (ended.stdout.splitlines(), ended.stderr) == ([reason], "")


@pytest.mark.parametrize(("patch", "call", "reason"), REFUSALS)
def test_what_needs_real_threads_is_refused_at_once(patch: str, call: str, reason: str) -> None:
    ended = program(f"{patch}\nimport claimq.blocking, redis\nfrom claimq.tasks import App\n{call}")
    assert ended.stderr.splitlines()[-1] == f"RuntimeError: {reason}"


@pytest.mark.parametrize("end", ["server.close()", ""])
@pytest.mark.parametrize("servers", ["redis_cluster", "sentinel"])
def test_greenlets_of_gevent_enqueue_and_claim_on_a_cluster_and_by_sentinels(
    request: pytest.FixtureRequest, servers: str, end: str
) -> None:
    url: str = request.getfixturevalue(servers).url
    ended = program(GREENLETS.replace("PATCHES", "{}") + end, url, "")
    assert (ended.stdout.splitlines(), ended.stderr, ended.returncode) == (WORKS, "", 0)
