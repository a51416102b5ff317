"""Up and down, also after the harness was killed: exactly one cluster, and then nothing of it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusterkit import lifecycle
from clusterkit.cgroups import Cgroup, named
from clusterkit.commands import WAIT, eventually
from clusterkit.image_stores import image_store
from clusterkit.images import make_base
from clusterkit.layout import Layout
from clusterkit.own_cluster import OwnCluster
from clusterkit.processes import Processes

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

HARNESS = Path(__file__).parents[1] / "src"
# Of its own for each name of a cluster: two runs on one machine would take each other's down.
NAME = f"{(os.environ.get('CLAIMQ_CLUSTER') or 'claimq')[:20]}-lifecycle"
LONGEST_WAIT = 500
"""Seconds; a test may take 900. The kernel has inotify instances for some six clusters, and other tests have clusters
too."""
WAITING = ("--wait", str(LONGEST_WAIT))
PLACES = (
    "/run",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/etc/cni",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/run/netns",
)
TUNABLES = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
)
MOUNTING_POD = """
apiVersion: v1
kind: Pod
metadata: {name: mounting}
spec:
  containers:
    - name: app
      image: claimq.dev/pause:1
      imagePullPolicy: Never
      volumeMounts: [{name: memory, mountPath: /memory}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
"""


def harness(*words: str) -> list[str]:
    return [sys.executable, "-m", "clusterkit", "--name", NAME, *words]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HARNESS)}


@contextmanager
def rising() -> Generator[subprocess.Popen[str]]:
    """An `up` in the background, which the test ends; what it printed is shown if it ends early."""
    with subprocess.Popen(
        harness("up", *WAITING),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as up:
        try:
            yield up
        finally:
            up.kill()


def comes_to(up: subprocess.Popen[str], what: str, is_there: Callable[[], bool]) -> None:
    """Waits until `up` has come so far, for as long as it may wait for other clusters to go and then some."""

    def is_so() -> bool:
        assert up.poll() is None, f"it ended before {what}: {up.communicate()[0]}"
        return is_there()

    eventually(what, is_so, timeout=LONGEST_WAIT + 300, every=0.01)


def said_by(*words: str, status: int = 0) -> str:
    """What the harness prints on both channels; it has to end with `status`."""
    done = subprocess.run(
        harness(*words),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT + 600,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    return said


def daemons() -> list[str]:
    """The programs that run in the cluster, one word for each process."""
    names: list[str] = []
    for pid in Cgroup(layout().cgroup).processes():
        try:
            names.append(Path(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])).name)
        except OSError:
            continue
    return sorted(names)


def layout() -> Layout:
    return Layout(NAME)


@pytest.fixture(autouse=True)
def no_cluster() -> Iterator[None]:
    """Nothing of that name before the test and after it."""
    said_by("down")
    yield
    said_by("down")


@pytest.fixture
def a_cluster() -> OwnCluster:
    said_by("up", *WAITING)
    return OwnCluster(layout())


def machine() -> dict[str, object]:
    """What of the machine a cluster could have changed and not put back."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {
        "links": sorted(re.findall(r"^\d+: ([^:@]+)", links, re.MULTILINE)),
        "mounts": sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "files": {place: names_in(place) for place in PLACES},
        "tunables": {name: Path("/proc/sys", name).read_text() for name in TUNABLES},
        "rules": subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout.count(
            "KUBE"
        ),
    }


def names_in(place: str) -> list[str]:
    """Sorted; empty where there is no such folder, which others may remove at any time."""
    try:
        return sorted(entry.name for entry in Path(place).iterdir())
    except OSError:
        return []


def difference(before: dict[str, object]) -> str:
    return "\n".join(
        f"{what}: {before[what]} is now {now}" for what, now in machine().items() if now != before[what]
    )


def namespaces_of(pids: set[int]) -> set[str]:
    found: set[str] = set()
    for pid in pids:
        for kind in ("net", "mnt", "pid", "ipc", "uts", "cgroup"):
            try:
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except OSError:
                continue
    return found


def all_pids() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def state_and_start(pid: int) -> tuple[str, str]:
    """The letter of its state, and when it began: the kernel gives its number to another one some day. Empty: gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return words[0], words[19]


def beginnings(pids: set[int]) -> dict[int, str]:
    """When each of them began, those left out that are gone."""
    return {pid: began for pid in pids if (began := state_and_start(pid)[1])}


def same_ones(those: dict[int, str]) -> set[int]:
    """Which of the processes of `beginnings` are there still."""
    return {pid for pid, began in those.items() if state_and_start(pid)[1] == began}


def all_have_ended(those: dict[int, str]) -> None:
    """Dead at once; their entries stay until the machine's first process has taken note, which may take a second."""
    for pid in same_ones(those):
        state, began = state_and_start(pid)
        assert began != those[pid] or state in "ZX", (pid, state)
    eventually("their entries are gone", lambda: not same_ones(those))


def mounts_of(pids: set[int]) -> str:
    """What each sees mounted; some of them last only for a moment."""
    found: list[str] = []
    for pid in pids:
        try:
            found.append(Path(f"/proc/{pid}/mountinfo").read_text())
        except OSError:
            continue
    return "".join(found)


def test_down_leaves_no_process_namespace_link_mount_or_cgroup() -> None:
    said_by("build")  # what is made once belongs to the cache and not to the cluster
    make_base()  # otherwise another process of this run may do so during the test
    before = machine()
    said_by("up", "--nodes", "2", *WAITING)
    cluster = OwnCluster(layout())
    cluster.apply(MOUNTING_POD)
    cluster.kubectl("wait", "pod/mounting", "--for=condition=Ready", WAIT)
    everybody = all_pids()
    ours = Cgroup(layout().cgroup).processes()
    namespaces = namespaces_of(ours) - namespaces_of({os.getpid()})
    # Seen now: afterwards the kernel gives their numbers to the next namespaces, those of another cluster too.
    assert namespaces_of(everybody - ours) & namespaces == set(), "a process outside of it lives in it"
    # Otherwise the rest would prove nothing: 3 spaces and 3 pods at least, each with namespaces of its own.
    assert len(namespaces) >= 12
    assert named(NAME)
    assert mounts_of(ours).count("overlay") > 2
    known = beginnings(ours)

    assert "nothing of it is left" in said_by("down")

    all_have_ended(known)
    assert named(NAME) == []
    # Other processes change the machine too, for example while they build images; that passes.
    eventually(
        "the machine is as before",
        lambda: machine() == before,
        why_not=lambda: difference(before),
    )
    assert not layout().folder.exists()
    assert said_by("down") == f"the cluster '{NAME}' was not there\n"


@pytest.mark.parametrize("stage", ["switch.space", "node-1.containerd", "node-1.kube-proxy"])
def test_after_a_kill_on_the_way_up_the_next_up_leaves_exactly_one_cluster(stage: str) -> None:
    said_by("build")
    with rising() as up:
        comes_to(up, f"{stage} was started", (layout().pids / f"{stage}.pid").exists)
    remains = beginnings(Cgroup(layout().cgroup).processes())
    assert remains
    assert "it was not brought up to the end" in said_by("status", status=2)

    assert "cleared away what was left" in said_by("up", *WAITING)

    assert not same_ones(remains)
    once = (
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "containerd",
        "coredns",
    )
    # The namespaces of the switch, the control plane and the node are held by a sleeper each.
    wanted = {**dict.fromkeys(once, 1), "sleep": 3}
    # A process between fork and exec still has the name of its parent.
    eventually(
        "each runs once",
        lambda: {name: daemons().count(name) for name in wanted} == wanted,
        why_not=lambda: str(daemons()),
    )
    assert "node-1" in said_by("status")


def test_down_clears_away_what_a_killed_up_left() -> None:
    said_by("build")
    with rising() as up:
        comes_to(up, "the node was started", (layout().pids / "node-1.kubelet.pid").exists)
    ours = beginnings(Cgroup(layout().cgroup).processes())
    assert ours
    assert NAME in lifecycle.names_of_all()  # what `down --all` goes through
    said_by("down")
    assert NAME not in lifecycle.names_of_all()
    all_have_ended(ours)
    assert named(NAME) == []
    assert not layout().folder.exists()


def test_a_kubelet_that_ends_before_it_has_registered_is_started_again() -> None:
    processes = Processes(layout())
    with rising() as up:
        comes_to(up, "the kubelet runs", lambda: processes.alive("node-1.kubelet"))
        killed = processes.pid("node-1.kubelet")
        assert processes.cgroup.signal(killed, signal.SIGKILL)
        said, _ = up.communicate(timeout=600)
        assert up.returncode == 0, said
    assert processes.pid("node-1.kubelet") != killed


def test_a_second_up_finds_the_cluster_and_leaves_it_alone(a_cluster: OwnCluster) -> None:
    before = Cgroup(layout().cgroup).processes()
    etcd = a_cluster.processes.pid("etcd")
    assert said_by("up", *WAITING).startswith(f"the cluster '{NAME}' is up already")
    assert a_cluster.processes.pid("etcd") == etcd
    assert before & Cgroup(layout().cgroup).processes()


def test_the_pods_of_a_cluster_have_more_of_the_processor_than_one_process(a_cluster: OwnCluster) -> None:
    folders = list(Cgroup(a_cluster.layout.cgroup).folders())
    weights = {file.read_text().strip() for folder in folders for file in folder.glob("cpu.weight")}
    shares = {file.read_text().strip() for folder in folders for file in folder.glob("cpu.shares")}
    assert "800" in weights or "8192" in shares


@pytest.mark.parametrize("daemon", ["node-1.kubelet", "etcd"])
def test_a_cluster_with_a_dead_part_is_reported_and_replaced(a_cluster: OwnCluster, daemon: str) -> None:
    scheduler = a_cluster.processes.pid("kube-scheduler")
    assert a_cluster.processes.cgroup.signal(a_cluster.processes.pid(daemon), signal.SIGKILL)
    eventually(f"{daemon} has ended", lambda: not a_cluster.processes.alive(daemon))
    assert f"{daemon} is not running" in said_by("status", status=2)
    logs = a_cluster.ends_of_logs()
    assert {f"{daemon}, which has ended", "kube-scheduler", "node-1.kube-proxy"} <= logs.keys()
    assert "shared_informer" in logs["node-1.kube-proxy"]
    said_by("up", *WAITING)
    assert a_cluster.processes.pid("kube-scheduler") != scheduler
    assert lifecycle.ailments(layout()) == []


def test_two_at_once_are_refused_with_the_number_of_the_first() -> None:
    said_by("build")
    with rising() as first:
        comes_to(first, "it is at work", layout().state.exists)
        # Stopped, so that it is still at work however long the others take to ask.
        first.send_signal(signal.SIGSTOP)
        try:
            for words in (["up"], ["down"]):
                said = said_by(*words, status=1)
                assert f"is in use by process {first.pid} (" in said
                assert "bringing it up" in said
                assert "--wait SECONDS" in said
        finally:
            first.send_signal(signal.SIGCONT)
        # One that waits gets its turn, and finds the cluster there.
        assert "is up already" in said_by("up", *WAITING)
        said, _ = first.communicate(timeout=600)
        assert first.returncode == 0, said


def test_an_up_that_fails_says_why_keeps_the_logs_and_leaves_nothing_else(tmp_path: Path) -> None:
    image_store(lifecycle.archives_of_nodes(()))  # made once, by a containerd that works
    broken = tmp_path / "containerd"
    broken.write_text("#!/bin/sh\necho this containerd is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        harness("up", *WAITING),
        env={**environment(), **path},
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT + 600,
        check=False,
    )
    assert done.returncode == 1
    assert "this containerd is broken" in done.stderr
    kept = layout().folder.with_name(f"{NAME}.failed-logs")
    assert "this containerd is broken" in (kept / "node-1.containerd.log").read_text()
    assert not layout().folder.exists()
    assert named(NAME) == []
    said_by("down")
    assert not kept.exists()


def test_a_process_that_only_has_the_number_of_ours_is_left_alone(a_cluster: OwnCluster) -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        # As if the scheduler had died, and the kernel had given its number to another process.
        a_cluster.processes.stop("kube-scheduler")
        (layout().pids / "kube-scheduler.pid").write_text(f"{bystander.pid}\n")
        assert not a_cluster.processes.alive("kube-scheduler")
        Processes(layout()).stop("kube-scheduler")
        said_by("down")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
