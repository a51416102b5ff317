"""Push delivery in a pod: the sidecar sends items to the app's port, and notices the end of the app."""

import pytest

from testkit.on_cluster.queue_on_cluster import QueueOnCluster

pytestmark = pytest.mark.cluster
APP = """
import http.server, os, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"]))
        if text.startswith(b"hold") and self.headers["ce-attempt"] == "1":
            time.sleep(600)  # until this container is killed
        self.send_response(400 if text.startswith(b"bad") else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["CLAIMQ_PUSH_PORT"])), Handler).serve_forever()
"""


def test_an_app_gets_items_by_requests_and_its_death_gives_them_back(queue: QueueOnCluster) -> None:
    push = {"delivery": "push", "push": {"port": 8080}, "concurrency": 4}
    queue.apply(program=APP, worker=push, scaling={"minReplicas": 1, "maxReplicas": 1})
    queue.enqueue(20)
    queue.enqueue(1, "bad")
    queue.wait("the responses are the verdicts", lambda: queue.counters()["done"] == 20)
    queue.wait("a refused item has failed", lambda: queue.counters()["in failed"] == 1)

    queue.enqueue(1, "hold")
    pod = queue.wait_for_a_holder()
    queue.kill_container(pod)
    queue.wait("the app that was started again does the item", lambda: queue.counters()["done"] == 21)
    seen = queue.counters()
    # Who notices the death first decides whether it is a failure (the sidecar) or a crash (the operator). While the app
    # dies, connections to it may still be accepted: then the item is claimed once more, and goes back uncounted.
    claimed = seen["claimed"] - seen["unclaimed"]
    assert (claimed, seen["fails"] + seen["crashes"], seen["expired"]) == (23, 2, 0)
