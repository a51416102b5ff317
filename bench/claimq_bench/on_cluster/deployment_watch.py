"""Watches the worker Deployments and records when the requested number of workers changes."""

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

from claimq_bench.on_cluster.place import QUEUES
from clusterkit import Cluster, HarnessError
from clusterkit.rest import UnixConnection

_PATH = f"/apis/apps/v1/namespaces/{QUEUES}/deployments"
_LONGEST, _PATIENCE = 3600.0, 120.0


@dataclass
class Watch:
    """A context manager. Starts with the present Deployments; instants are those of `time.monotonic()`."""

    cluster: Cluster
    _replicas: dict[str, int] = field(default_factory=dict[str, int])
    _since: dict[str, float] = field(default_factory=dict[str, float])
    _news: threading.Condition = field(default_factory=threading.Condition)
    _ended: str = ""
    _is_over: bool = False

    def __enter__(self) -> Self:
        listed = cast("dict[str, Any]", self.cluster.api("GET", _PATH))
        for one in listed["items"]:
            self._see("ADDED", one)
        self._connection = UnixConnection(self.cluster.api_socket(), _LONGEST)
        version = listed["metadata"]["resourceVersion"]
        query = f"watch=1&timeoutSeconds={_LONGEST:.0f}&resourceVersion={version}"
        self._connection.request("GET", f"{_PATH}?{query}", headers={"Accept": "application/json"})
        answer = self._connection.getresponse()
        if answer.status != http.client.OK:
            raise HarnessError(f"the Deployments can't be watched: {answer.status} {answer.read()!r}")
        self._reading = threading.Thread(target=self._read, args=(answer,), daemon=True)
        self._reading.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._connection.shut_down()
        self._reading.join(10)
        self._connection.close()

    def replicas(self, queue: str) -> int | None:
        """The requested number of workers; None while there is no Deployment."""
        with self._news:
            return self._replicas.get(f"{queue}-worker")

    def when(self, queue: str, *, is_awake: bool) -> float:
        """Waits until workers (or none) are requested for the queue, and returns when that was observed."""
        name, until = f"{queue}-worker", time.monotonic() + _PATIENCE
        with self._news:
            while name not in self._replicas or (self._replicas[name] > 0) is not is_awake:
                if self._ended:
                    raise HarnessError(f"the watch of the Deployments ended: {self._ended}")
                if not self._news.wait(until - time.monotonic()) and time.monotonic() >= until:
                    wanted = "workers" if is_awake else "no workers"
                    raise HarnessError(f"after {_PATIENCE:.0f} s {queue} still has not been given {wanted}")
            return self._since[name]

    def _read(self, answer: http.client.HTTPResponse) -> None:
        said = "the API server closed it"
        try:
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    said = str(event["object"])
                    break
                self._see(event["type"], event["object"])
        except (OSError, ValueError, http.client.HTTPException) as error:
            said = repr(error)
        with self._news:
            self._ended = "" if self._is_over else said
            self._news.notify_all()

    def _see(self, kind: str, body: dict[str, Any]) -> None:
        at, name = time.monotonic(), body["metadata"]["name"]
        with self._news:
            before = self._replicas.pop(name, 0)
            if kind != "DELETED":
                self._replicas[name] = int(body["spec"]["replicas"])
                if name not in self._since or (before > 0) is not (self._replicas[name] > 0):
                    self._since[name] = at
            self._news.notify_all()
