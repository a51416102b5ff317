"""`claimq up` with an app that listens for its items: each worker's app has an address of its own."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import eventually_sync

APP = """
import http.server, os, pathlib, socketserver, sys
folder = pathlib.Path(sys.argv[1])
port, socket = os.environ.get("CLAIMQ_PUSH_PORT"), os.environ.get("CLAIMQ_PUSH_SOCKET")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        if text == "deadly" and self.headers["ce-attempt"] == "1":
            os._exit(3)
        with (folder / "done").open("a") as results:
            results.write(f"{text} {port or socket}\\n")
        self.send_response(204)
        self.end_headers()

    def address_string(self):
        return ""

if port:
    server = http.server.HTTPServer(("127.0.0.1", int(port)), Handler)
else:
    server = socketserver.UnixStreamServer(socket, Handler)
server.serve_forever()
"""


@pytest.mark.parametrize("push", [{}, {"port": 8080}], ids=["socket", "port"])
def test_items_are_sent_to_the_app_of_each_worker(
    start_up: Callable[..., Any], claimq: Callable[..., Any], tmp_path: Path, push: dict[str, int]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    worker = {
        "command": [sys.executable, str(tmp_path / "app.py"), str(tmp_path)],
        "delivery": "push",
        "push": push,
    }
    up = start_up({"worker": worker, "scaling": {"mode": "Manual", "replicas": 2 if push else 1}})
    up.until_pids("app", 2 if push else 1)
    seen: list[list[str]] = []

    def all_apps_have_worked() -> bool:
        claimq("enqueue", "trial", "quick")
        file = tmp_path / "done"
        seen[:] = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return len({address for _, address in seen}) == (2 if push else 1)

    eventually_sync(all_apps_have_worked)
    if push:
        claimq("enqueue", "trial", "deadly")
        eventually_sync(lambda: "deadly" in (tmp_path / "done").read_text())
        up.until_says("exited with code 3; restarting")
    eventually_sync(lambda: not any(claimq("status", "trial", "-o", "json").json["lengths"].values()))


def test_an_app_on_the_wrong_port_is_not_ready_and_every_command_says_why(
    start_up: Callable[..., Any], claimq: Callable[..., Any]
) -> None:
    deaf = [sys.executable, "-c", "import time; time.sleep(600)"]
    up = start_up(
        {
            "worker": {"command": deaf, "delivery": "push", "push": {"port": 8080}},
            "scaling": {"mode": "Manual", "replicas": 1},
        }
    )
    claimq("enqueue", "trial", "waits")
    why = r"its app does not listen on \$CLAIMQ_PUSH_PORT \(\d+\)"
    up.until_says(f"trial: WorkersUnavailable: 0 of 1 workers are ready: worker trial-1: {why}")
    item = claimq("items", "trial", "main", "-o", "json").json["items"][0]["item"]["id"]
    for command in (
        ["status", "trial"],
        ["why", "trial"],
        ["doctor", "trial"],
        ["item", "show", "trial", item],
    ):
        assert re.search(why, " ".join(claimq(*command).out.split())), command
