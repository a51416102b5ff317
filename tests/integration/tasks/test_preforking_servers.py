"""Applications that are loaded before their server forks: gunicorn --preload and uWSGI."""

import sys
from pathlib import Path

import pytest

from claimq.testing import EmbeddedServer
from testkit.programs.processes import Process
from testkit.waiting import eventually_sync
from testkit.web.unix_http import get

WEB = """
import claimq.blocking
from claimq.tasks import App

app = App("q")

@app.task
def send(to):
    pass

send.enqueue("from the master")
queue = claimq.blocking.connect().queue("q")
queue.enqueue("from the master")

def web(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/task":
        return [send.enqueue("from a worker").id.encode()]
    try:
        return [queue.enqueue("from a worker").id.encode()]
    except RuntimeError as error:
        return [str(error).encode()]
"""


SERVERS = {
    "gunicorn": ["gunicorn", "--preload", "--bind", "unix:s", "web:web"],
    "uwsgi": [
        "uwsgi",
        "--master",
        "--need-app",
        "--die-on-term",
        "--http-socket",
        "s",
        "--module",
        "web:web",
    ],
}


@pytest.mark.parametrize("preforking", SERVERS)
def test_tasks_work_after_a_fork_and_a_connection_from_before_it_is_refused(
    claimq_server: EmbeddedServer, tmp_path: Path, preforking: str
) -> None:
    (tmp_path / "web.py").write_text(WEB)
    place, (program, *options) = tmp_path / "s", SERVERS[preforking]
    words: list[str | Path] = [Path(sys.executable).parent / program, *options]
    env = {"PYTHONPATH": str(tmp_path)}
    with Process(words, log=tmp_path / "log", cwd=tmp_path, env=env) as web:
        eventually_sync(place.exists, needs=[web])
        assert get(place, "/task")
        assert get(place, "/") == (
            "this connection was made before a fork; connect again in the child process"
        )
    assert claimq_server.queue("q").length() == 3
