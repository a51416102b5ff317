"""Parts of the harness that need neither root nor a cluster."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from clusterkit import CommandFailed, HarnessError, archives, images, rest
from clusterkit.cgroups import hierarchies, named
from clusterkit.commands import LONGEST_RUN
from clusterkit.existing_cluster import ExistingCluster
from clusterkit.forwarding import forwarded
from clusterkit.images import BuiltImage
from clusterkit.layout import KUBERNETES_VERSIONS, Layout, kubernetes_release
from clusterkit.lock import locked
from clusterkit.own_cluster import OwnCluster
from clusterkit.state import State, boot_id, write_state

HARNESS = Path(__file__).parents[1] / "src"
KUBECTL = """#!/bin/sh
case "$*" in
  *"config view"*"--context=unknown"*) echo 'error: context "unknown" does not exist' >&2; exit 1 ;;
  *"config view"*) echo 'the login of '"$*" ;;
  *"get nodes"*) echo 'one two' ;;
  *"get secrets"*) echo asked >> "$LOG"; echo 'Error from server (Forbidden)' >&2; exit 1 ;;
  *"get pods"*)
    echo asked >> "$LOG"
    [ -e "$LOG.before" ] || { : > "$LOG.before"; echo 'dial tcp: connect: connection refused' >&2; exit 1; }
    echo none ;;
  *) echo "$KUBECONFIG" > "$LOG.kubeconfig"; cat "$KUBECONFIG" ;;
esac
"""
HOLD = """
import sys
from pathlib import Path
from clusterkit.lock import locked
from clusterkit.own_cluster import OwnCluster
from clusterkit.state import State, boot_id, write_state
with locked(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    sys.stdin.read()
"""
# Brings what is asked for, and fails where another one is at work, as apt-get does for the lists.
APT_GET = """#!/bin/sh
mkdir "$BUSY" 2>/dev/null || { echo 'E: Could not get lock' >&2; exit 100; }
sleep 0.3
case "$*" in *install*) for program in buildah mmdebstrap; do cp "$0" "$(dirname "$0")/$program"; done ;; esac
rmdir "$BUSY"
"""
RECORDER = '#!/bin/sh\necho "$(basename "$0") $*" >> "$LOG"\n'


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that only note how they were called, and nothing else on PATH but the system's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL)
    for name in ("kind", "k3d", "docker"):
        (folder / name).write_text(RECORDER)
    for file in folder.iterdir():
        file.chmod(0o755)
    for name in ("sh", "cat", "basename"):
        (folder / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("LOG", str(tmp_path / "calls"))
    return folder


def test_two_processes_that_miss_the_same_packages_install_them_in_turn(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "apt-get").write_text(APT_GET)
    (programs / "apt-get").chmod(0o755)
    for name in ("mkdir", "rmdir", "sleep", "cp", "dirname"):
        (programs / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    monkeypatch.setenv("BUSY", str(tmp_path / "busy"))
    monkeypatch.setenv("CLAIMQ_CACHE", str(tmp_path / "cache"))
    install = "from clusterkit.toolchain import install_packages as i; i(for_images=True)"
    environment = {**os.environ, "PYTHONPATH": str(HARNESS)}
    both = [
        subprocess.Popen([sys.executable, "-c", install], env=environment, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=LONGEST_RUN)[1].decode() for one in both]
    assert [one.returncode for one in both] == [0, 0], said


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def image(tmp_path: Path) -> BuiltImage:
    return BuiltImage("docker.io/library/claimq-operator:1", tmp_path / "image.tar")


def test_the_images_a_dockerfile_starts_from_are_found_without_its_own_stages() -> None:
    text = """
ARG PYTHON=python:3.12-slim
ARG TOOL="example.org/tool"
FROM --platform=linux/amd64 ${PYTHON} AS builder
FROM $TOOL:2 as tool
FROM scratch AS empty
FROM builder
FROM python:3.12-slim \\
    AS last
"""
    assert images.base_names(text, {}) == ["python:3.12-slim", "example.org/tool:2"]
    assert images.base_names(text, {"PYTHON": "python:3.13"}) == [
        "python:3.13",
        "example.org/tool:2",
        "python:3.12-slim",
    ]


def test_a_base_named_by_its_digest_is_refused_with_the_way_out() -> None:
    with pytest.raises(HarnessError, match="take it from an ARG"):
        images.base_names("FROM python:3.12@sha256:0123 AS x\n", {})


@pytest.mark.parametrize(
    ("tag", "full"),
    [
        ("claimq", "docker.io/library/claimq:latest"),
        ("claimq:1", "docker.io/library/claimq:1"),
        ("team/claimq:1", "docker.io/team/claimq:1"),
        ("localhost/claimq:1", "localhost/claimq:1"),
        ("example.org:5000/claimq", "example.org:5000/claimq:latest"),
    ],
)
def test_an_image_has_the_name_that_containerd_knows(tag: str, full: str) -> None:
    assert images.full_name(tag) == full


def test_an_image_of_one_program_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    program = tmp_path / "answer"
    program.write_bytes(b"\x7fELF and so on")
    first = archives.program_image(program, "claimq.dev/answer:1", tmp_path / "first.tar").read_bytes()
    second = archives.program_image(program, "claimq.dev/answer:1", tmp_path / "second.tar").read_bytes()
    assert first == second
    with tarfile.open(tmp_path / "first.tar") as archive:
        manifest = json.load(archive.extractfile("manifest.json") or pytest.fail("no manifest"))
        assert manifest[0]["RepoTags"] == ["claimq.dev/answer:1"]
        config = json.load(archive.extractfile(manifest[0]["Config"]) or pytest.fail("no config"))
        assert config["config"]["Entrypoint"] == ["/answer"]
        assert config["config"]["User"] == "65532:65532"


def test_the_mounted_cgroups_are_distinguished() -> None:
    mounts = (
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
        "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n"
        "tmpfs /run tmpfs rw 0 0\n"
    )
    found = hierarchies(mounts)
    assert [(str(h.mount), h.version) for h in found] == [
        ("/sys/fs/cgroup/unified", 2),
        ("/sys/fs/cgroup/cpu", 1),
    ]
    assert "cpuacct" in found[1].controllers


@pytest.mark.parametrize("name", ["", "Upper", "-x", "a/b", "../x", "x" * 31])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(HarnessError, match="a cluster can't be called"):
        Layout(name)


def test_the_newest_release_of_kubernetes_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES", raising=False)
    assert kubernetes_release() == max(KUBERNETES_VERSIONS, key=lambda release: int(release.split(".")[1]))
    monkeypatch.setenv("KUBERNETES", "1.34")
    assert kubernetes_release() == "1.34"


def test_a_release_of_kubernetes_that_is_not_built_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES", "1.33")
    with pytest.raises(HarnessError, match=r"KUBERNETES='1.33' cannot be built: use 1.34 or 1.37"):
        kubernetes_release()


def test_what_kubectl_remembers_of_a_cluster_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All have the same address, and by the address kubectl would keep which kinds there are.
    monkeypatch.setenv("CLAIMQ_CLUSTERS", str(tmp_path))
    layouts = Layout("one"), Layout("two")
    for layout in layouts:
        layout.folder.mkdir()
        write_state(layout, State(nodes=1, stage="up", boot=boot_id(), kubernetes="1.37"))
    one, two = (Path(OwnCluster(layout).environment()["KUBECACHEDIR"]) for layout in layouts)
    assert one != two
    assert one.is_relative_to(layouts[0].folder)  # and goes with it


def test_the_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "claimq.lock"
    environment = {**os.environ, "PYTHONPATH": str(HARNESS)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(HarnessError, match=rf"in use by process {holder.pid} \(.*\), a test"),
            locked(file, "another"),
        ):
            pytest.fail("two hold it")
        holder.kill()
    with locked(file, "another", wait=300):
        pass


def test_a_forwarded_port_passes_everything_on_and_closes_without_an_answer() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        forwarded(lambda: socket.create_connection(server.getsockname(), 300)) as port,
    ):
        answering = threading.Thread(target=_echo_backwards, args=(server,))
        answering.start()
        with socket.create_connection(("127.0.0.1", port), 300) as client:
            client.sendall(b"claimq")
            client.shutdown(socket.SHUT_WR)
            assert client.makefile("rb").read() == b"qmialc"
        answering.join()

    def refuse() -> socket.socket:
        raise ConnectionRefusedError

    with forwarded(refuse) as port, socket.create_connection(("127.0.0.1", port), 300) as client:
        assert client.recv(1) == b""


def _echo_backwards(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(connection.makefile("rb").read()[::-1])


def test_without_an_api_server_the_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"can't be reached through .*no\.sock"):
        rest.request(tmp_path / "no.sock", "GET", "/readyz")


def test_an_existing_cluster_is_used_by_a_copy_of_its_login_alone(programs: Path, tmp_path: Path) -> None:
    cluster = ExistingCluster("kind-dev")
    try:
        assert cluster.nodes == ["one", "two"]
        assert not cluster.is_own
        assert "--context=kind-dev --minify --flatten --raw" in cluster.kubectl("apply", "-f", "x")
        copy = Path((tmp_path / "calls.kubeconfig").read_text().strip())
        assert copy.stat().st_mode & 0o077 == 0
        with pytest.raises(
            HarnessError, match="can't cut one off: that is done only to a cluster of our own"
        ):
            cluster.cut_node("one")
    finally:
        cluster.close()
    assert not copy.exists()


def test_a_request_that_fails_for_a_moment_is_sent_again(programs: Path, tmp_path: Path) -> None:
    cluster = ExistingCluster("kind-dev")
    try:
        assert cluster.kubectl("get", "pods") == "none\n"
        with pytest.raises(CommandFailed, match="Forbidden"):
            cluster.kubectl("get", "secrets")
        assert calls(tmp_path) == ["asked"] * 3
    finally:
        cluster.close()


def test_a_context_that_kubectl_does_not_know_is_named(programs: Path) -> None:
    with pytest.raises(HarnessError, match="KUBE_CONTEXT=unknown: kubectl knows no such context"):
        ExistingCluster("unknown")


@pytest.mark.parametrize(
    ("context", "call"),
    [
        ("kind-dev", "kind load image-archive {archive} --name=dev"),
        ("k3d-dev", "k3d image import {archive} --cluster=dev"),
    ],
)
def test_an_image_is_loaded_by_the_program_of_the_cluster(
    programs: Path, tmp_path: Path, context: str, call: str
) -> None:
    cluster = ExistingCluster(context)
    try:
        assert cluster.load_image(image(tmp_path)) == "docker.io/library/claimq-operator:1"
    finally:
        cluster.close()
    assert calls(tmp_path) == [call.format(archive=tmp_path / "image.tar")]


def test_with_a_registry_the_image_is_pushed_and_called_by_its_name_there(
    programs: Path, tmp_path: Path
) -> None:
    cluster = ExistingCluster("production", registry="registry.example/team/")
    try:
        assert cluster.load_image(image(tmp_path)) == "registry.example/team/claimq-operator:1"
    finally:
        cluster.close()
    assert calls(tmp_path) == [
        "docker tag docker.io/library/claimq-operator:1 registry.example/team/claimq-operator:1",
        "docker push registry.example/team/claimq-operator:1",
    ]


def test_any_other_cluster_needs_a_registry_and_the_error_says_so(programs: Path, tmp_path: Path) -> None:
    cluster = ExistingCluster("production")
    try:
        with pytest.raises(HarnessError, match="set IMAGE_REGISTRY"):
            cluster.load_image(image(tmp_path))
    finally:
        cluster.close()


def test_archives_that_are_not_loaded_go_and_the_newest_of_others_stay(tmp_path: Path) -> None:
    day = 24 * 3600.0
    ages = {"ours/1": 9, "ours/2": 8, "ours/3": 0, "used/1": 9, "used/2": 1, "unused/1": 9, "unused/2": 4}
    for name, days in ages.items():
        archive = tmp_path / f"{name}.tar"
        archive.parent.mkdir(exist_ok=True)
        archive.touch()
        os.utime(archive, (0, (100 - days) * day))
    (tmp_path / "a program.tar").touch()
    for name, built in {"ours/a": "2.tar", "ours/b": "1.tar", "unused/a": "2.tar"}.items():
        (tmp_path / f"{name}.built").write_text(built)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "1.new").touch()
    archives.forget_archives(tmp_path / "ours", now=100 * day)
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    archives_left = {"ours/2.tar", "ours/3.tar", "used/1.tar", "used/2.tar", "a program.tar"}
    assert left == archives_left | {"ours/a.built", "begun/1.new"}
    assert not (tmp_path / "unused").exists()


def test_a_walk_over_all_cgroups_passes_over_those_that_disappear(tmp_path: Path) -> None:
    (tmp_path / "kubepods" / "claimq-cluster-x" / "claimq-cluster-x.slice").mkdir(parents=True)
    ours = [
        tmp_path / "kubepods/claimq-cluster-x",
        tmp_path / "kubepods/claimq-cluster-x/claimq-cluster-x.slice",
    ]
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            for number in range(20):
                (tmp_path / f"pod{number}" / "container").mkdir(parents=True)
            for number in range(20):
                shutil.rmtree(tmp_path / f"pod{number}")

    neighbours = threading.Thread(target=come_and_go)
    neighbours.start()
    try:
        for _ in range(200):
            assert named("claimq-cluster-x", [tmp_path]) == ours
    finally:
        ended.set()
        neighbours.join()
