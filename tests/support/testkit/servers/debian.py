"""Programs out of Debian's packages, unpacked into a cache: no root, no change of the system.

Through apt's own client, which checks each package against the archive's signatures.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

TIMEOUT_SECONDS = 300


class PackageMissing(Exception):
    """The packages cannot be had on this machine; says why."""


def cache_dir() -> Path:
    """$CLAIMQ_CACHE, or claimq in the user's cache directory. Never in the checkout."""
    chosen = os.environ.get("CLAIMQ_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "claimq"


def unpacked(
    name: str, packages: list[str], *, with_dependencies: bool = True, release: str | None = None
) -> Path:
    """A directory that holds `packages` and what they need besides the system, unpacked.

    Without `with_dependencies` it holds `packages` alone, for programs that need no library. `release` names another
    release of Debian to take them from, at the place that the machine gets its own from.

    Its name carries a hash of the packages' versions, so that a newer version never mixes with an older one. Safe in
    several processes at once. PackageMissing when apt is not there or cannot download.
    """
    for program in ("apt-get", "apt-cache", "dpkg", "dpkg-query"):
        if not shutil.which(program):
            raise PackageMissing(f"{program} is not on PATH (not a Debian?)")
    try:
        cache = cache_dir()
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{name}.lock").open("w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            return _unpacked_alone(cache, name, packages, with_dependencies, release)
    except OSError as error:
        raise PackageMissing(f"cannot be kept: {error} (set CLAIMQ_CACHE to a directory of yours)") from error


def _unpacked_alone(
    cache: Path, name: str, packages: list[str], with_dependencies: bool, release: str | None
) -> Path:
    ready = sorted(cache.glob(f"{name}-*/.complete"), key=lambda stamp: stamp.stat().st_mtime)
    if ready:
        return ready[-1].parent
    if release is not None:
        apt = _Apt(cache / f"apt-{release}", release)
        apt.update()
        return _fetched(apt, cache, name, packages, with_dependencies)
    apt = _Apt(cache / "apt")
    try:
        return _fetched(apt, cache, name, packages, with_dependencies)
    except PackageMissing:
        # The system's lists are missing, or older than the archive: ask with lists of our own.
        apt.update()
        return _fetched(apt, cache, name, packages, with_dependencies)


def _fetched(apt: "_Apt", cache: Path, name: str, packages: list[str], with_dependencies: bool) -> Path:
    wanted = apt.closure(packages) if with_dependencies else packages
    candidates = {package: apt.candidate(package) for package in wanted}
    missing = [package for package in packages if not candidates.get(package)]
    if missing:
        raise PackageMissing(f"the archive has no {', '.join(missing)}")
    versions = {package: version for package, version in candidates.items() if version}
    key = hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:12]
    target = cache / f"{name}-{key}"
    shutil.rmtree(target, ignore_errors=True)
    downloads = target / ".packages"
    downloads.mkdir(parents=True)
    pinned = [f"{package}={version}" for package, version in versions.items()]
    apt.run("apt-get", "download", *pinned, cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        apt.run("dpkg", "-x", str(package), str(target))
    shutil.rmtree(downloads)
    listing = "".join(f"{package} {version}\n" for package, version in versions.items())
    (target / ".complete").write_text(listing)
    return target


def _sources_of(release: str) -> str:
    """Where the machine gets its own release of Debian from, with the name of the release replaced."""
    system = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.MULTILINE))
    own = system.get("VERSION_CODENAME", "")
    if system.get("ID") != "debian" or not own:
        raise PackageMissing(f"the machine is no Debian, so packages of Debian's {release} cannot be had")
    deb822 = [
        block for path in sorted(Path("/etc/apt").glob("sources.list.d/*.sources"))
        for block in re.split(r"\n\s*\n", path.read_text())
    ]  # fmt: skip
    for block in deb822:
        fields = dict(re.findall(r"^(URIs|Suites|Signed-By): *(.*)$", block, re.MULTILINE))
        if own in fields.get("Suites", "").split():
            signed = f"Signed-By: {fields['Signed-By']}\n" if fields.get("Signed-By") else ""
            return f"Types: deb\nURIs: {fields['URIs']}\nSuites: {release}\nComponents: main\n{signed}"
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt").glob("sources.list.d/*.list"))]:
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            if found := re.match(rf"deb (?:\[[^]]*\] )?(\S+) {own} ", line):
                return f"Types: deb\nURIs: {found[1]}\nSuites: {release}\nComponents: main\n"
    raise PackageMissing(f"apt has no source of {own}, so packages of {release} cannot be had")


class _Apt:
    """apt with lists of its own when the system's are not there or are of another release. It needs no root."""

    def __init__(self, state: Path, release: str | None = None) -> None:
        self.state = state
        self.release = release
        self.options: list[str] = []

    def _own_options(self) -> list[str]:
        options = [
            f"-oDir::State={self.state}",
            f"-oDir::Cache={self.state / 'cache'}",
            "-oDir::State::status=/var/lib/dpkg/status",
        ]
        if self.release is None:
            return options
        sources = self.state / "release.sources"
        sources.write_text(_sources_of(self.release))
        return [*options, f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=-"]

    def update(self) -> None:
        """Fetches the lists of packages into the cache."""
        (self.state / "lists/partial").mkdir(parents=True, exist_ok=True)
        (self.state / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
        self.options = self._own_options()
        self.run("apt-get", "update")

    def candidate(self, package: str) -> str:
        """The version that would be installed; empty when there is none."""
        answer = self.run("apt-cache", "policy", package)
        match = re.search(r"^ {2}Candidate: (\S+)", answer, re.MULTILINE)
        return match[1] if match and match[1] != "(none)" else ""

    def closure(self, packages: list[str]) -> list[str]:
        """The packages and all they depend on that the system does not have."""
        wanted, waiting = list(packages), list(packages)
        while waiting:
            answer = self.run("apt-cache", "depends", "--no-recommends", "--no-suggests", "--no-conflicts",
                              "--no-breaks", "--no-replaces", "--no-enhances", waiting.pop())  # fmt: skip
            for name in re.findall(r"^ {2}(?:Pre)?Depends: ([a-z0-9.+-]+)$", answer, re.MULTILINE):
                if name not in wanted and not _is_installed(name):
                    wanted.append(name)
                    waiting.append(name)
        return wanted

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """Runs a program of apt's family; PackageMissing with the end of what it said when it fails."""
        options = self.options if program.startswith("apt") else []
        try:
            done = subprocess.run(
                [program, *options, *arguments], cwd=cwd, capture_output=True, text=True, check=False,
                timeout=TIMEOUT_SECONDS, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise PackageMissing(f"{program} {arguments[0]} took more than {TIMEOUT_SECONDS} s") from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise PackageMissing(f"{program} {arguments[0]} failed: {last}")
        return done.stdout


def _is_installed(package: str) -> bool:
    status = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True, check=False
    )
    return status.stdout == "install ok installed"
