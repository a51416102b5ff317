"""The inotify instances of the machine: counted before a cluster starts, waited for, and reserved."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_too_few_inotify_instances_are_reported_before_a_kubelet_fails() -> None:
    ask = "from clusterkit.watches import shortage; print(shortage(2))"
    few = f"echo 5 > /proc/sys/user/max_inotify_instances && exec {sys.executable} -c '{ask}'"
    said = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", few],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    # Fewer than 5 where real clusters hold those of the whole machine.
    assert re.search("needs 34 inotify instances and the kernel has [0-5] left of", said.stdout), said.stderr
    assert "sysctl fs.inotify.max_user_instances=1024" in said.stdout


def test_a_cluster_waits_for_the_inotify_instances_of_another_one(tmp_path: Path) -> None:
    wait = (
        "import pathlib; from clusterkit.watches import reserved_watches\n"
        f"with reserved_watches(pathlib.Path('{tmp_path}/mine.starting'), 2, 600): print('enough')"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", _OTHERS_HOLD_MOST, wait],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["waits", "enough"], done.stderr


def test_a_cluster_that_starts_has_reserved_its_inotify_instances(tmp_path: Path) -> None:
    """Two that looked at the same moment would both find enough, and one of them would miss some in the end."""
    both = f"""
import pathlib
from clusterkit.errors import HarnessError
from clusterkit.watches import reserved_watches
pathlib.Path("/proc/sys/user/max_inotify_instances").write_text("60")
folder = pathlib.Path("{tmp_path}")
(folder / "killed.starting").write_text("34")
with reserved_watches(folder / "first.starting", 2, 600):
    try:
        with reserved_watches(folder / "second.starting", 2, 0):
            print("both start")
    except HarnessError as error:
        print(error)
with reserved_watches(folder / "second.starting", 2, 600):
    print("the second starts")
"""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", both],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    refused = "a cluster with 2 nodes needs 34 inotify instances and the kernel has [12]?[0-9] left of .*"
    assert re.fullmatch(f"{refused}\nthe second starts\n", done.stdout), done.stderr


_OTHERS_HOLD_MOST = """
import ctypes, os, pathlib, subprocess, sys, time
pathlib.Path("/proc/sys/user/max_inotify_instances").write_text("40")
inotify = ctypes.CDLL(None).inotify_init1
held = []
while len(held) < 20:
    if (one := inotify(os.O_CLOEXEC)) >= 0:
        held.append(one)
    else:  # real clusters hold the machine's instances; some go when one of them ends
        time.sleep(0.2)
pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
waiting = subprocess.Popen([sys.executable, "-c", sys.argv[1]], **pipes)
for line in waiting.stderr:
    if "waiting up to 600 s for other clusters to go" in line:
        print("waits", flush=True)
        break
for one in held:
    os.close(one)
print(waiting.communicate()[0], end="")
"""
