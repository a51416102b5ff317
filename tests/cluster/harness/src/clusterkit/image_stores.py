"""What containerd keeps of images, made once for the same images: nodes start with these files and import nothing."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from clusterkit.commands import run
from clusterkit.images import ALONE
from clusterkit.layout import base_folder, cache_folder
from clusterkit.toolchain import exclusively, say

_KEPT = 6
# Other file systems keep their state in memory alone or can't lie under an overlay; there containerd has to copy.
_OVERLAY_CAN_STAND_ON = {"ext2/ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs"}
_CONFIG = """version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
"""
# With a /run of its own, so that the path of the socket is short and no other containerd is met.
_IMPORT = """set -eu
mount -n -t tmpfs -o mode=0755 tmpfs /run
config=$1 snapshotter=$2
shift 2
containerd --config "$config" --log-level warn >&2 &
until ctr version > /dev/null 2>&1; do kill -0 $!; sleep 0.05; done
for archive in "$@"; do ctr --namespace=k8s.io images import --snapshotter "$snapshotter" "$archive" > /dev/null; done
kill $!
wait $!
"""


def snapshotter() -> str:
    """How the containerd of nodes keeps layers on the file systems of this machine."""
    folders = (base_folder(), cache_folder())
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    below = run(["stat", "-f", "-c", "%T", *folders]).stdout.split()
    return "overlayfs" if set(below) <= _OVERLAY_CAN_STAND_ON else "native"


def image_store(archives: Sequence[Path]) -> Path:
    """containerd's root folder with the images of these archives unpacked; made when there is none in the cache.

    A newer containerd reads what an older one wrote.
    """
    names = [f"{archive.parent.name}/{archive.name}" for archive in archives]
    number = hashlib.sha256("\0".join([snapshotter(), *names]).encode()).hexdigest()[:20]
    store = cache_folder() / "stores" / number
    with exclusively(store):
        if not store.exists():
            _forget_old(store.parent)
            say(f"unpacking {len(archives)} images for the nodes")
            _make(store, archives)
        store.touch()
    return store


def place(store: Path, folder: Path) -> None:
    """Give a node that has not started yet the store's images; `folder` is its containerd's root folder.

    Files are linked where possible: containerd never changes a layer, only its databases.
    """
    folder.mkdir(parents=True, exist_ok=True)
    link = ["--link"] if store.stat().st_dev == folder.stat().st_dev else []
    run(["cp", "--archive", *link, f"{store}/.", str(folder)])
    for database in store.glob("*/*.db"):
        ours = folder / database.relative_to(store)
        ours.unlink()
        shutil.copy2(database, ours)


def _make(store: Path, archives: Sequence[Path]) -> None:
    half = store.with_suffix(".new")
    config = store.with_suffix(".toml")
    shutil.rmtree(half, ignore_errors=True)
    try:
        config.write_text(_CONFIG.format(root=half))
        run([*ALONE, "sh", "-c", _IMPORT, "sh", config, snapshotter(), *archives], timeout=600)
        half.rename(store)
    finally:
        config.unlink(missing_ok=True)
        shutil.rmtree(half, ignore_errors=True)


def _forget_old(folder: Path) -> None:
    """Remove all but the stores that were used last; a node that has one keeps its files."""
    stores = [found for found in folder.iterdir() if found.is_dir() and found.suffix != ".new"]
    for old in sorted(stores, key=lambda one: one.stat().st_mtime)[: -(_KEPT - 1)]:
        shutil.rmtree(old, ignore_errors=True)
