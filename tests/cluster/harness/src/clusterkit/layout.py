"""Where everything is: folders, addresses and names of one cluster. Pure; nothing here touches the machine."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from clusterkit.errors import HarnessError

KUBERNETES_VERSIONS = {"1.34": "1.34.4", "1.37": "1.37.2"}
"""Supported releases, from the oldest to the newest, and the version of each that is built."""
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
POD_RANGE = "10.244.0.0/16"
API_PORT = 6443
MAX_NODES = 3
SOURCES = Path(__file__).resolve().parents[2]


def kubernetes_release() -> str:
    """The release that $KUBERNETES chooses, by default the newest; HarnessError if it is not one that is built."""
    release = os.environ.get("KUBERNETES") or list(KUBERNETES_VERSIONS)[-1]
    if release not in KUBERNETES_VERSIONS:
        raise HarnessError(f"KUBERNETES={release!r} cannot be built: use {' or '.join(KUBERNETES_VERSIONS)}")
    return release


def cache_folder() -> Path:
    """What is built or fetched once: $CLAIMQ_CACHE, or claimq below the user's cache folder."""
    given = os.environ.get("CLAIMQ_CACHE")
    if given:
        return Path(given).resolve() / "cluster"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "claimq" / "cluster"


def base_folder() -> Path:
    """Below it every cluster has its folder: $CLAIMQ_CLUSTERS, or /var/lib/claimq-clusters."""
    return Path(os.environ.get("CLAIMQ_CLUSTERS") or "/var/lib/claimq-clusters").resolve()


@dataclass(frozen=True)
class Node:
    """One machine of the cluster: `name` is its Kubernetes name, `number` counts from 1; 0 is the control plane's."""

    name: str
    number: int

    @property
    def address(self) -> str:
        return f"10.66.0.{10 + self.number}" if self.number else "10.66.0.2"

    @property
    def pod_range(self) -> str:
        return f"10.244.{self.number}.0/24"


CONTROL = Node("control", 0)


def node(number: int) -> Node:
    return Node(f"node-{number}", number)


@dataclass(frozen=True)
class Layout:
    """Paths of the cluster called `name`. Two clusters of different names share nothing but the cache."""

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,29}", self.name):
            raise HarnessError(
                f"a cluster can't be called {self.name!r}: use up to 30 lower case letters, digits and dashes"
            )

    @property
    def folder(self) -> Path:
        """Everything of this cluster: data, certificates, logs. Deleted by down."""
        return base_folder() / self.name

    @property
    def lock(self) -> Path:
        """Held while the cluster is brought up, taken down or tested; outside the folder, so that it outlives it."""
        return base_folder() / f"{self.name}.lock"

    @property
    def cgroup(self) -> str:
        return f"claimq-cluster-{self.name}"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def secrets(self) -> Path:
        return self.folder / "pki"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def pids(self) -> Path:
        return self.folder / "pids"

    @property
    def programs(self) -> Path:
        """A folder of links to kubectl, helm and the programs of the cluster; first on the shell's PATH."""
        return self.folder / "bin"

    @property
    def kubeconfig(self) -> Path:
        return self.secrets / "admin.kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        """What kubectl and helm remember of this cluster."""
        return self.folder / "kubectl-cache"

    @property
    def api_socket(self) -> Path:
        """Serves the API without a login, to root alone."""
        return self.folder / "api.sock"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    def node_folder(self, of: Node) -> Path:
        return self.folder / "nodes" / of.name
