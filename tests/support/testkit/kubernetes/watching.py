"""Every state that objects of a cluster go through, however short it lasts and however slowly a test looks."""

import http.client
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from claimq_kubernetes.port import Json
from clusterkit import Cluster
from clusterkit.rest import UnixConnection

_LONGEST_SECONDS = 1200


@contextmanager
def watched(cluster: Cluster, path: str) -> Generator[list[Json]]:
    """The states of all objects at `path` (a list's path) from now on, in a list that grows as the API server reports
    them, those that are there already first. What has just happened comes a moment later: wait for it.

    AssertionError at the end if the API server has ended the watch before."""
    states: list[Json] = []
    connection = UnixConnection(cluster.api_socket(), _LONGEST_SECONDS)
    sign = "&" if "?" in path else "?"
    connection.request("GET", f"{path}{sign}watch=1&timeoutSeconds={_LONGEST_SECONDS}")
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()

    def read() -> None:
        with suppress(OSError, ValueError, http.client.HTTPException):  # the shutdown can come at any byte
            for line in answer:
                states.append(json.loads(line)["object"])  # noqa: PERF401 - each is seen as soon as it is there

    reader = threading.Thread(target=read, name="watch", daemon=True)
    reader.start()
    try:
        yield states
    finally:
        went_on = reader.is_alive()
        connection.shut_down()
        reader.join()
        connection.close()
    assert went_on, "the API server has ended the watch"
