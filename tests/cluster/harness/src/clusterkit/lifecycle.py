"""Bring a cluster up from nothing, and down to nothing."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

from clusterkit import build, rest
from clusterkit.cgroups import Cgroup, hierarchies
from clusterkit.commands import LONGEST_RUN, WAIT, eventually, run
from clusterkit.control_plane import ControlPlane
from clusterkit.errors import CommandFailed, HarnessError
from clusterkit.images import BuiltImage, image_of
from clusterkit.layout import CONTROL, MAX_NODES, Layout, Node, base_folder, kubernetes_release
from clusterkit.nodes import PAUSE_IMAGE, NodeRunner, start_kube_proxy
from clusterkit.pki import Authority
from clusterkit.processes import DAEMONS, Processes
from clusterkit.spaces import Space, create_switch, join_switch
from clusterkit.state import State, boot_id, read_state, write_state
from clusterkit.toolchain import helm, install_packages, say
from clusterkit.watches import reserved_watches

COREDNS_IMAGE = "claimq.dev/coredns:1"
API_PROXY = "api-proxy"
FAILED = ".failed-logs"
Items = dict[str, list[object]]


def why_impossible() -> str | None:
    """Why no cluster can be brought up on this machine by this user; None when it can."""
    if sys.platform != "linux":
        return f"a cluster of its own needs Linux, and this is {sys.platform}; use an existing one: KUBE_CONTEXT=NAME"
    if os.geteuid() != 0:
        return "a cluster of its own needs root; run as root, or use an existing one: KUBE_CONTEXT=NAME"
    if shutil.which("unshare") and run(["unshare", "--net", "--mount", "true"], check=False).returncode:
        return "root may make no namespaces here (an unprivileged container?); use an existing one: KUBE_CONTEXT=NAME"
    if not any(os.access(hierarchy.mount, os.W_OK) for hierarchy in hierarchies()):
        return "no cgroups that can be written are mounted below /sys/fs/cgroup; use an existing one: KUBE_CONTEXT=NAME"
    return None


def up(
    layout: Layout, nodes: int = 1, images: Callable[[], Iterable[BuiltImage]] = tuple, *, wait: float = 0
) -> bool:
    """Bring up the cluster with so many nodes, which start with `images()`; the caller holds the lock.

    Waits up to `wait` seconds for other clusters to go if the kernel has too few inotify instances beside them.

    One that is up already is left as it is when it has as many nodes and the chosen release, and all of it runs (the
    answer is then False). Anything else of that name is remains, and is cleared away first.
    """
    if not 1 <= nodes <= MAX_NODES:
        raise HarnessError(f"a cluster has 1 to {MAX_NODES} nodes, not {nodes}")
    if impossible := why_impossible():
        raise HarnessError(impossible)
    state = read_state(layout)
    if (
        state is not None
        and (state.nodes, state.kubernetes) == (nodes, kubernetes_release())
        and not ailments(layout)
    ):
        return False
    install_packages()
    programs = [build.kubernetes(), helm()]
    archives = archives_of_nodes(images())
    if down(layout):
        say(f"cleared away what was left of the cluster {layout.name!r}")
    with reserved_watches(layout.lock.with_suffix(".starting"), nodes, wait):
        try:
            _bring_up(layout, nodes, programs, archives)
        except BaseException:
            # What failed is shown by the error; nothing of it stays but the logs.
            _keep_logs(layout)
            down(layout, keep_logs=True)
            raise
    return True


def archives_of_nodes(images: Iterable[BuiltImage]) -> list[Path]:
    """What nodes that start with these images have: those of the cluster itself, too."""
    return [*_own_images(), *(image.archive for image in images)]


def down(layout: Layout, *, keep_logs: bool = False) -> bool:
    """Take the cluster down completely, whatever state it is in; the answer is whether there was anything.

    With the last process of a cluster its namespaces end, and with these its links and mounts.
    """
    cgroup = Cgroup(layout.cgroup)
    ended = cgroup.kill()
    had_cgroup = any(True for _ in cgroup.folders())
    cgroup.remove()
    _unmount_below(layout.folder)
    if not keep_logs:
        shutil.rmtree(_kept_logs(layout), ignore_errors=True)
    had_folder = layout.folder.exists()
    if had_folder:
        shutil.rmtree(layout.folder)
    return bool(ended or had_cgroup or had_folder)


def names_of_all() -> list[str]:
    """Every cluster of this machine of which there is anything, by what it leaves: a folder or a cgroup."""
    names = {folder.name.removesuffix(FAILED) for folder in base_folder().glob("*") if folder.is_dir()}
    prefix = Layout("x").cgroup.removesuffix("x")
    for hierarchy in hierarchies():
        names |= {folder.name.removeprefix(prefix) for folder in hierarchy.mount.glob(f"{prefix}*")}
    return sorted(names)


def ailments(layout: Layout) -> list[str]:
    """What of the cluster isn't as it should be; empty when it is up and whole."""
    state = read_state(layout)
    if state is None:
        return ["it is not there" if not layout.folder.exists() else "only remains are there"]
    if state.boot != boot_id():
        return ["the machine has restarted since"]
    if state.stage != "up":
        return ["it was not brought up to the end"]
    processes = Processes(layout)
    return [f"{name} is not running" for name in expected_daemons(state) if not processes.alive(name)]


def expected_daemons(state: State) -> list[str]:
    control = [
        "switch.space",
        "control.space",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ]
    each = ("space", "containerd", "kubelet", "kube-proxy")
    return [
        *control,
        "control.kube-proxy",
        API_PROXY,
        *(f"{node.name}.{name}" for node in state.names() for name in each),
    ]


def _bring_up(layout: Layout, nodes: int, programs: list[Path], archives: list[Path]) -> None:
    began = time.monotonic()
    processes = Processes(layout)
    for folder in (layout.folder, layout.logs, layout.pids, layout.programs):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    state = State(nodes=nodes, stage="starting", boot=boot_id(), kubernetes=kubernetes_release())
    write_state(layout, state)
    _place_programs(layout, *programs)
    everyone = state.names()
    processes.cgroup.create(DAEMONS, *(node.name for node in everyone))
    Authority(layout).create()
    create_switch(processes)
    for node in (CONTROL, *everyone):
        Space(node.name, processes).create()
        join_switch(processes, node, everyone)
    _serve_requests(layout, processes)
    ControlPlane(layout, processes).start()
    say(f"the API server is ready after {time.monotonic() - began:.0f} s")
    for node in everyone:
        _start_node(layout, processes, node, archives)
    _apply(layout, Path(__file__).with_name("coredns.yaml").read_text())
    _wait_for_nodes(layout, everyone)
    start_kube_proxy(layout, processes, CONTROL, acting_for=everyone[0])
    _kubectl(layout, "--namespace=kube-system", "rollout", "status", "deployment/coredns", WAIT)
    if sick := [name for name in expected_daemons(state) if not processes.alive(name)]:
        raise HarnessError(f"{sick[0]} is not running:\n{processes.tail(sick[0])}")
    write_state(layout, replace(state, stage="up"))
    size = "1 node" if nodes == 1 else f"{nodes} nodes"
    say(f"the cluster {layout.name!r} with {size} is up after {time.monotonic() - began:.0f} s")


def _start_node(layout: Layout, processes: Processes, node: Node, archives: list[Path]) -> None:
    runner = NodeRunner(layout, processes, node)
    runner.prepare()
    runner.start_containerd(archives)
    runner.start_kubelet()
    runner.start_kube_proxy()


def _serve_requests(layout: Layout, processes: Processes) -> None:
    """The API on a Unix socket, which any process of the machine's root can reach whatever network it is in.

    Requests fail until the API server is ready.
    """
    kubectl = [str(layout.programs / "kubectl"), f"--kubeconfig={layout.kubeconfig}", "proxy"]
    entering = Space(CONTROL.name, processes).entering(mounts=False)
    processes.start(API_PROXY, [*entering, *kubectl, f"--unix-socket={layout.api_socket}"])


def _place_programs(layout: Layout, kubernetes: Path, helm_program: Path) -> None:
    """The programs get a place in the cluster's folder: the nodes see that one, whatever they see of the cache."""
    for source, name in ((kubernetes, "kubernetes"), (helm_program, "helm")):
        try:
            (layout.programs / name).hardlink_to(source.resolve())
        except OSError:
            shutil.copy2(source, layout.programs / name)
    for program in build.KUBERNETES_PROGRAMS:
        (layout.programs / program).symlink_to("kubernetes")


def _own_images() -> list[Path]:
    """The archives of the images that the cluster itself needs."""
    wanted = ((build.pause(), PAUSE_IMAGE), (build.coredns(), COREDNS_IMAGE))
    return [image_of(program, tag).archive for program, tag in wanted]


def _wait_for_nodes(layout: Layout, everyone: list[Node]) -> None:
    names, processes = [f"node/{node.name}" for node in everyone], Processes(layout)

    def have_registered() -> bool:
        for node in everyone:
            # A kubelet ends when containerd does not serve it yet; elsewhere the init system starts it again.
            if not processes.alive(f"{node.name}.kubelet"):
                NodeRunner(layout, processes, node).start_kubelet()
        found = cast("Items", rest.request(layout.api_socket, "GET", "/api/v1/nodes"))
        return len(found["items"]) == len(names)

    eventually(
        "the kubelets have registered",
        have_registered,
        every=0.5,
        why_not=lambda: "\n".join(processes.tail(f"{node.name}.kubelet") for node in everyone),
    )
    _kubectl(layout, "wait", "--for=condition=Ready", *names, WAIT)


def _kubectl(layout: Layout, *argv: str, stdin: str | None = None) -> str:
    space = Space(CONTROL.name, Processes(layout))
    kubectl = [str(layout.programs / "kubectl"), f"--kubeconfig={layout.kubeconfig}"]
    kubectl.append(f"--cache-dir={layout.kubectl_cache}")
    return run([*space.entering(mounts=False), *kubectl, *argv], stdin=stdin, timeout=LONGEST_RUN).stdout


def _apply(layout: Layout, text: str) -> None:
    _kubectl(layout, "apply", "--server-side", "-f", "-", stdin=text)


def _unmount_below(folder: Path) -> None:
    """Unmount what the machine itself sees below the folder: nothing, or else deleting would follow it."""
    for _ in range(100):
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        inside = [mount for mount in mounts if mount == str(folder) or mount.startswith(f"{folder}/")]
        if not inside:
            return
        try:
            run(["umount", "--lazy", inside[-1]])
        except CommandFailed as error:
            raise HarnessError(
                f"{inside[-1]} can't be unmounted, so nothing below {folder} is deleted: {error}"
            ) from error
    raise HarnessError(f"mounts keep coming back below {folder}; end what makes them, and run down again")


def _kept_logs(layout: Layout) -> Path:
    return layout.folder.with_name(f"{layout.name}{FAILED}")


def _keep_logs(layout: Layout) -> None:
    """The logs of a cluster that failed to come up, for the person who has to find out why."""
    kept = _kept_logs(layout)
    shutil.rmtree(kept, ignore_errors=True)
    if layout.logs.exists():
        shutil.copytree(layout.logs, kept)
        say(f"its logs are in {kept}")
