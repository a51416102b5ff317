"""A cluster that the harness brought up on this machine."""

import signal
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from clusterkit import images
from clusterkit.cluster import Cluster
from clusterkit.commands import LESS_COLLECTING, run, with_path
from clusterkit.control_plane import API_SERVER, ControlPlane
from clusterkit.errors import HarnessError
from clusterkit.forwarding import forwarded
from clusterkit.images import BuiltImage
from clusterkit.layout import CONTROL, Layout, Node
from clusterkit.nodes import NodeRunner
from clusterkit.processes import Processes
from clusterkit.spaces import Space, link_is_up, set_link
from clusterkit.state import require_up


class OwnCluster(Cluster):
    """Raises HarnessError when the cluster called `layout.name` isn't up."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.processes = Processes(layout)
        self._nodes = {node.name: node for node in require_up(layout).names()}
        self.name = layout.name
        self.is_own = True
        self.nodes = list(self._nodes)

    def entering(self) -> list[str]:
        return Space(CONTROL.name, self.processes).entering(mounts=False)

    def environment(self) -> dict[str, str]:
        # Every cluster of ours has the same address, and by that kubectl and helm keep what kinds there are.
        extra = {"KUBECONFIG": str(self.layout.kubeconfig), "KUBECACHEDIR": str(self.layout.kubectl_cache)}
        return with_path(self.layout.programs, extra | LESS_COLLECTING)

    def api_socket(self) -> Path:
        return self.layout.api_socket

    def forward(self, namespace: str, service: str, port: int) -> AbstractContextManager[int]:
        found = self.api("GET", f"/api/v1/namespaces/{namespace}/services/{service}")
        address: str = cast("dict[str, Any]", found)["spec"]["clusterIP"]
        return forwarded(lambda: Space(CONTROL.name, self.processes).connect(address, port))

    def build_image(
        self,
        dockerfile: Path,
        tag: str,
        *,
        target: str | None = None,
        context: Path | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> BuiltImage:
        return images.build_image(dockerfile, tag, target=target, context=context, build_args=build_args)

    def load_image(self, image: BuiltImage) -> str:
        with ThreadPoolExecutor() as pool:
            load = partial(NodeRunner.load, archive=image.archive)
            for _ in pool.map(load, map(self._runner, self._nodes.values())):
                pass
        return image.tag

    def ends_of_logs(self) -> dict[str, str]:
        return {
            name if self.processes.alive(name) else f"{name}, which has ended": self.processes.tail(name)
            for name in self.processes.names()
            if self.processes.log(name).exists()
        }

    def cut_node(self, node: str) -> None:
        set_link(self.processes, self._named(node), up=False)

    def restore_node(self, node: str) -> None:
        set_link(self.processes, self._named(node), up=True)

    def node_is_cut(self, node: str) -> bool:
        return not link_is_up(self.processes, self._named(node))

    def stop_kubelet(self, node: str) -> None:
        self._runner(self._named(node)).stop_kubelet()

    def start_kubelet(self, node: str) -> None:
        self._runner(self._named(node)).start_kubelet()

    def stop_apiserver(self) -> None:
        # It would wait a minute for its watchers, who don't leave by themselves.
        self.processes.stop(API_SERVER, grace=3)

    def start_apiserver(self) -> None:
        ControlPlane(self.layout, self.processes).start_apiserver()

    def kill_apiserver(self) -> None:
        """End the API server at once, as a crash would."""
        self.processes.stop(API_SERVER, grace=0)

    @contextmanager
    def frozen_apiserver(self) -> Generator[int]:
        """The API server stopped by SIGSTOP: it takes requests and answers none. Gives its process number."""
        pid = self.processes.pid(API_SERVER)
        self.processes.cgroup.signal(pid, signal.SIGSTOP)
        try:
            yield pid
        finally:
            self.processes.cgroup.signal(pid, signal.SIGCONT)

    def run_on_node(self, node: str, *argv: str) -> str:
        return run([*Space(self._named(node).name, self.processes).entering(), *argv]).stdout

    def audit_log(self) -> str:
        """Every request of a service account so far, one JSON document a line: who asked for what."""
        text = self.layout.audit_log.read_text() if self.layout.audit_log.exists() else ""
        return text[: text.rfind("\n") + 1]  # the last line may be half written

    def _runner(self, node: Node) -> NodeRunner:
        return NodeRunner(self.layout, self.processes, node)

    def _named(self, name: str) -> Node:
        if name not in self._nodes:
            raise HarnessError(f"there is no node {name!r}; there are {', '.join(self._nodes)}")
        return self._nodes[name]
