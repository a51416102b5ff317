"""What a test can do with a cluster, whichever it is: use it, read it, load images into it."""

import json
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, cast

from clusterkit import rest
from clusterkit.commands import LONGEST_RUN, eventually, repeated, run
from clusterkit.errors import HarnessError
from clusterkit.images import BuiltImage


class Cluster(ABC):
    """A cluster that is up. Programs run where the API server, pods and services can be reached.

    What breaks nodes and the control plane works only on a cluster of our own (`is_own`), and raises HarnessError on
    an existing one.
    """

    name: str
    is_own: bool
    nodes: list[str]

    @abstractmethod
    def entering(self) -> list[str]:
        """The words to put before a command so that it can reach the cluster; it sees the machine's files."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The environment in which kubectl and helm find the cluster."""

    @abstractmethod
    def api_socket(self) -> Path:
        """A Unix socket that serves the API without a login."""

    @abstractmethod
    def forward(self, namespace: str, service: str, port: int) -> AbstractContextManager[int]:
        """A port on this machine's 127.0.0.1 that leads to a service."""

    @abstractmethod
    def build_image(
        self,
        dockerfile: Path,
        tag: str,
        *,
        target: str | None = None,
        context: Path | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> BuiltImage:
        """Build one target of a Dockerfile; see `images.build_image`."""

    @abstractmethod
    def load_image(self, image: BuiltImage) -> str:
        """Put the image where every node finds it. Returns the name to use in manifests."""

    def run(
        self,
        *argv: str | Path,
        stdin: str | bytes | Path | None = None,
        timeout: float = LONGEST_RUN,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end in reach of the cluster, at most `timeout` seconds."""
        return run(
            [*self.entering(), *argv], stdin=stdin, timeout=timeout, env=self.environment(), check=check
        )

    def popen(
        self, *argv: str | Path, output: IO[bytes] | None = None, env: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a program in reach of the cluster; the caller ends it. `output` takes what it prints."""
        sink = subprocess.DEVNULL if output is None else output
        return subprocess.Popen(
            [*self.entering(), *argv],
            env={**self.environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )

    def kubectl(self, *argv: str, stdin: str | None = None, timeout: float = LONGEST_RUN) -> str:
        """Run kubectl and return what it printed; CommandFailed with its words when it fails and that does not pass."""
        return repeated(lambda: self.run("kubectl", *argv, stdin=stdin, timeout=timeout)).stdout

    def helm(self, *argv: str) -> str:
        """Run helm and return what it printed; CommandFailed with its words when it fails."""
        return self.run("helm", *argv).stdout

    def apply(self, *objects: Mapping[str, object] | str, namespace: str | None = None) -> str:
        """`kubectl apply` of manifests: objects, or text in YAML."""
        texts = [part if isinstance(part, str) else json.dumps(part) for part in objects]
        where = [f"--namespace={namespace}"] if namespace else []
        return self.kubectl("apply", *where, "-f", "-", stdin="\n---\n".join(texts))

    def api(
        self, method: str, path: str, body: object = None, *, patch: str = "merge", timeout: float = 30
    ) -> object:
        """One request to the API server; see `rest.request`. One that only reads is `repeated`, unless it is to a pod:
        whether that answers is what the caller asks."""

        def request() -> object:
            return rest.request(self.api_socket(), method, path, body, patch=patch, timeout=timeout)

        return repeated(request) if method == "GET" and "/proxy/" not in path else request()

    def node_is_ready(self, node: str) -> bool:
        """What the API server thinks of the node."""
        found = cast("dict[str, Any]", self.api("GET", f"/api/v1/nodes/{node}"))
        conditions: list[dict[str, str]] = found["status"].get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def wait_for_node(self, node: str, *, ready: bool) -> None:
        """Wait until the API server thinks so of the node."""
        eventually(
            f"{node} is {'ready' if ready else 'not ready'}",
            lambda: self.node_is_ready(node) is ready,
            every=0.5,
        )

    def shell(self, argv: Sequence[str] = ()) -> int:
        """A shell (or `argv`) in which kubectl and helm work; returns its exit status."""
        words = list(argv) or [os.environ.get("SHELL") or "/bin/sh"]
        return subprocess.run([*self.entering(), *words], env=self.environment(), check=False).returncode

    def ends_of_logs(self) -> dict[str, str]:
        """The last lines of the log of each daemon of Kubernetes; nothing of an existing cluster."""
        return {}

    def cut_node(self, node: str) -> None:
        """Take the node off the network: what runs on it goes on and reaches nothing outside of it."""
        self._only_own(f"cut {node} off")

    def restore_node(self, node: str) -> None:
        """Put the node back on the network."""
        self._only_own(f"restore {node}")

    def stop_kubelet(self, node: str) -> None:
        """End the node's kubelet; its containers go on."""
        self._only_own(f"stop the kubelet of {node}")

    def start_kubelet(self, node: str) -> None:
        self._only_own(f"start the kubelet of {node}")

    def stop_apiserver(self) -> None:
        self._only_own("stop the API server")

    def start_apiserver(self) -> None:
        """Start the API server, wait until it is ready, and restart controller manager and scheduler."""
        self._only_own("start the API server")

    def restart_apiserver(self) -> None:
        """Stop the API server, start it again and wait until it is ready."""
        self.stop_apiserver()
        self.start_apiserver()

    def run_on_node(self, node: str, *argv: str) -> str:
        """Run a program with the node's network and mounts (ctr, iptables, ip) and return what it printed."""
        self._only_own(f"run a program on {node}")
        return ""

    def _only_own(self, what: str) -> None:
        raise HarnessError(f"can't {what}: that is done only to a cluster of our own; unset KUBE_CONTEXT")
