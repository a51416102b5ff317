"""A node: containerd, kubelet and kube-proxy in a space of their own, with its own /var and /run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterkit.commands import eventually, run
from clusterkit.errors import CommandFailed, HarnessError
from clusterkit.image_stores import image_store, place, snapshotter
from clusterkit.layout import CONTROL, DNS_SERVICE, POD_RANGE, Layout, Node
from clusterkit.pki import Authority
from clusterkit.processes import Processes
from clusterkit.spaces import Space
from clusterkit.toolchain import cni_folder

PAUSE_IMAGE = "claimq.dev/pause:1"
# What the kubelet would write into the whole machine's kernel settings. It meets these values in files of its own
# that lie over the real ones in its view, finds nothing to do, and the machine's settings stay as they are.
_TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True)
class NodeRunner:
    """Starts and stops what runs on one node."""

    layout: Layout
    processes: Processes
    node: Node

    @property
    def space(self) -> Space:
        return Space(self.node.name, self.processes)

    @property
    def folder(self) -> Path:
        return self.layout.node_folder(self.node)

    @property
    def cgroup_child(self) -> str:
        return self.node.name

    def prepare(self) -> None:
        """The files and mounts of the node; its space is there and joined to the switch."""
        for path in (
            "var/lib/kubelet",
            "var/lib/cni",
            "var/log/pods",
            "var/tmp",
            "cni",
        ):
            (self.folder / path).mkdir(parents=True, exist_ok=True)
        (self.folder / "var/run").symlink_to("/run")
        for name, value in _TUNABLES.items():
            file = self.folder / "sysctl" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value + "\n")
        Authority(self.layout).admit(self.node)
        (self.folder / "containerd.toml").write_text(self._containerd_config())
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(self._cni_config()))
        (self.folder / "kubelet.json").write_text(json.dumps(self._kubelet_config(), indent=1))
        self.space.script(self._mounts())

    def start_containerd(self, archives: Sequence[Path]) -> None:
        """Start containerd with the images of these archives, and wait until it answers."""
        place(image_store(archives), self.folder / "var/lib/containerd")
        for archive in archives:
            self._note_loaded(archive)
        self._start("containerd", "containerd", "--config", self.folder / "containerd.toml")
        name = self._daemon("containerd")

        def answers() -> bool:
            if not self.processes.alive(name):
                raise HarnessError(f"containerd of {self.node.name} ended:\n{self.processes.tail(name)}")
            try:
                self.ctr("version")
            except CommandFailed:
                return False
            return True

        eventually(f"{name} answers", answers, why_not=lambda: self.processes.tail(name))

    def start_kubelet(self) -> None:
        self._start(
            "kubelet",
            self.layout.programs / "kubelet",
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={Authority(self.layout).kubeconfig('kubelet-' + self.node.name)}",
            f"--hostname-override={self.node.name}",
            f"--node-ip={self.node.address}",
        )

    def stop_kubelet(self) -> None:
        """The kubelet ends; the containers go on."""
        self.processes.stop(self._daemon("kubelet"))

    def start_kube_proxy(self) -> None:
        start_kube_proxy(self.layout, self.processes, self.node, acting_for=self.node)

    def load(self, archive: Path) -> None:
        """Import an image while containerd runs, unless the node has it under its name already."""
        note = self._loaded(archive)
        if not note.exists() or note.read_text() != archive.name:
            self.ctr("images", "import", "-", stdin=archive)
            self._note_loaded(archive)

    def _note_loaded(self, archive: Path) -> None:
        note = self._loaded(archive)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(archive.name)

    def _loaded(self, archive: Path) -> Path:
        """Where it is noted which archive the node has loaded last under the image's name."""
        return self.layout.folder / "loaded" / self.node.name / archive.parent.name

    def ctr(self, *argv: str, stdin: Path | None = None) -> str:
        """containerd's own client, on the images and containers of Kubernetes."""
        # containerd's socket and its default path are inside the node's view of /run.
        return run(
            [*self.space.entering(), "ctr", "--namespace=k8s.io", *argv], stdin=stdin, timeout=300
        ).stdout

    def _daemon(self, program: str) -> str:
        return f"{self.node.name}.{program}"

    def _start(self, program: str, *argv: str | Path) -> None:
        self.processes.start(self._daemon(program), [*self.space.entering(), *argv])

    def _mounts(self) -> str:
        # The cluster's folder keeps its path in the node's view, wherever it lies (it may be below /var or /run).
        covers = "\n".join(
            f"mount -n --bind '{self.folder}/sysctl/{name}' /proc/sys/{name}" for name in _TUNABLES
        )
        return f"""
            mount -n --bind '{self.layout.folder}' /mnt
            mount -n -t tmpfs -o mode=0755 tmpfs /run
            mount -n --bind /mnt/nodes/{self.node.name}/var /var
            mkdir -p '{self.layout.folder}'
            mount -n --move /mnt '{self.layout.folder}'
            {covers}
        """

    def _containerd_config(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd/containerd.sock"
[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  disable_tcp_service = true
  # Without CAP_SYS_RESOURCE no process may make a process less likely to be killed than its parent.
  restrict_oom_score_adj = true
[{cri}.containerd]
  snapshotter = "{snapshotter()}"
  default_runtime_name = "runc"
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
[{cri}.cni]
  bin_dir = "{cni_folder()}"
  conf_dir = "{self.folder / "cni"}"
"""

    def _cni_config(self) -> dict[str, object]:
        # A pair of links for each pod and no bridge: all traffic is routed, so that service addresses work
        # between pods of one node without the kernel's bridge filter.
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": self.node.pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugins: list[dict[str, object]] = [{"type": "ptp", "ipMasq": False, "ipam": addresses}]
        if (cni_folder() / "portmap").exists():
            plugins.append({"type": "portmap", "capabilities": {"portMappings": True}})
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}

    def _kubelet_config(self) -> dict[str, object]:
        pki = Authority(self.layout)
        serving = f"serving-{self.node.name}"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            # From 1.35 on the kubelet refuses a machine with cgroups v1 without it.
            "failCgroupV1": False,
            "cgroupRoot": f"/{self.layout.cgroup}/{self.cgroup_child}",
            "clusterDNS": [DNS_SERVICE],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "tlsCertFile": str(pki.certificate(serving)),
            "tlsPrivateKeyFile": str(pki.key(serving)),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(pki.certificate("ca"))},
            },
            "authorization": {"mode": "Webhook"},
            "oomScoreAdj": 0,
            "failSwapOn": False,
            # Images come by hand and can't be pulled again, and a full disk of the machine isn't the cluster's matter.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            # Pairs with the controller manager's node-monitor-grace-period.
            "nodeStatusUpdateFrequency": "4s",
            "nodeLeaseDurationSeconds": 16,
            "syncFrequency": "15s",
            "registerNode": True,
            "serializeImagePulls": False,
            "shutdownGracePeriod": "0s",
        }


def start_kube_proxy(layout: Layout, processes: Processes, where: Node, acting_for: Node) -> None:
    """Make service addresses work on `where`. The control plane is no node, so there it acts for another's name."""
    argv = [
        *Space(where.name, processes).entering(mounts=where is not CONTROL),
        str(layout.programs / "kube-proxy"),
        f"--kubeconfig={Authority(layout).kubeconfig('kube-proxy')}",
        f"--hostname-override={acting_for.name}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={POD_RANGE}",
        "--iptables-min-sync-period=100ms",
        "--oom-score-adj=0",
        # Only the machine's real root may change these.
        *(
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ),
    ]
    processes.start(f"{where.name}.kube-proxy", argv)
