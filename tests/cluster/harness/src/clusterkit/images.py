"""Images from a Dockerfile as it stands, on a machine that can reach no registry.

A base image is made from the machine's own Debian packages and is given the very names that the Dockerfile's FROM
lines have; buildah then finds them and pulls nothing.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterkit import contexts
from clusterkit.archives import forget_archives, program_image
from clusterkit.commands import run
from clusterkit.errors import HarnessError
from clusterkit.layout import cache_folder
from clusterkit.toolchain import exclusively, install_packages, say

# What a Dockerfile that starts from a Python image counts on.
_BASE_PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv")
_BASE_SETUP = """set -eu
ln -s /usr/bin/python3 "$1/usr/local/bin/python"
ln -s /usr/bin/python3 "$1/usr/local/bin/python3"
ln -s /usr/bin/pip3 "$1/usr/local/bin/pip"
rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED
rm -rf "$1"/usr/share/doc "$1"/usr/share/man "$1"/usr/share/locale "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin
"""
_MOST_LAYERS = 120
_LONGEST_BUILD = 1800
"""Seconds for one step of it: on a busy machine, to remove old layers takes more than five minutes."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A tool that is started so has its own process numbers and mounts; it ends with us, and with it all that it started.
ALONE = [
    *("setpriv", "--pdeathsig", "KILL"),
    *(
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
    ),
]


@dataclass(frozen=True)
class BuiltImage:
    """An image as it is called in a pod's manifest, and the archive that it can be loaded from."""

    tag: str
    archive: Path


def build_image(
    dockerfile: Path,
    tag: str,
    *,
    target: str | None = None,
    context: Path | None = None,
    build_args: Mapping[str, str] | None = None,
) -> BuiltImage:
    """Build the target of a Dockerfile (default: its last stage); `context` defaults to the Dockerfile's folder.

    Nothing is built while the files that go in are the same; otherwise unchanged layers come from the cache. In the
    manifest say `imagePullPolicy: Never` or IfNotPresent, and give the
    tag a version other than `latest`.
    """
    install_packages(for_images=True)
    full = full_name(tag)
    arguments, context = dict(build_args or {}), (context or dockerfile.parent).resolve()
    folder = cache_folder() / "images" / hashlib.sha256(full.encode()).hexdigest()[:20]
    with exclusively(_store()):
        inputs = contexts.digest(
            dockerfile, context, _base_tag(), target or "", json.dumps(arguments, sort_keys=True)
        )
        note = folder / f"{inputs}.built"
        if inputs and note.exists() and (archive := folder / note.read_text()).exists():
            archive.touch()
            return BuiltImage(full, archive)
        base = _base_image()
        for name in base_names(dockerfile.read_text(), arguments):
            _buildah("tag", base, *_local_names(name))
        words = ["bud", "--isolation=chroot", "--pull=never", "--layers", "--format=docker", f"--tag={full}"]
        words += [f"--signature-policy={_policy()}", f"--file={dockerfile.resolve()}", *_package_index()]
        words += [f"--target={target}"] if target else []
        words += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        say(f"building the image {tag}")
        _buildah(*words, str(context))
        number = json.loads(_buildah("inspect", "--type=image", full))["FromImageID"]
        archive = _archive(folder, number, full)
        note.write_text(archive.name)
        return BuiltImage(full, archive)


def make_base() -> None:
    """Make the image that stands in for every FROM, unless it is there.

    The first time on a machine, the tools for images make folders that stay: /run/mount, /etc/cni/net.d and
    /var/lib/containers.
    """
    install_packages(for_images=True)
    with exclusively(_store()):
        _base_image()


def image_of(program: Path, tag: str) -> BuiltImage:
    """The image called `tag` that is nothing but a static program; written once for each build and tag."""
    name = re.sub(r"[^A-Za-z0-9.]", "-", tag)
    archive = cache_folder() / "images" / f"{program.parent.name}-{name}.tar"
    with exclusively(archive):
        if not archive.exists():
            program_image(program, tag, archive.with_suffix(".new")).rename(archive)
    return BuiltImage(tag, archive)


def full_name(tag: str) -> str:
    """The name that containerd knows the image by: "claimq:1" is docker.io/library/claimq:1."""
    if "@" in tag:
        raise HarnessError(f"give the image {tag!r} a tag, not a digest: it is built here")
    name = tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest"
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"


def base_names(dockerfile: str, build_args: Mapping[str, str]) -> list[str]:
    """The images that a Dockerfile starts from, without its own stages and scratch.

    Raises HarnessError for one that is named by its digest: no image made here can have it.
    """
    values: dict[str, str] = {}
    stages: set[str] = set()
    names: list[str] = []
    for line in re.sub(r"\\\s*\n", " ", dockerfile).splitlines():
        words = line.split()
        if len(words) < 2 or line.lstrip().startswith("#"):
            continue
        if words[0].upper() == "ARG" and not stages:
            name, _, default = words[1].partition("=")
            values[name] = build_args.get(name, default.strip("\"'"))
        elif words[0].upper() == "FROM":
            image, *rest = [word for word in words[1:] if not word.startswith("--")]
            image = re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], ""), image)
            if image not in stages and image != "scratch" and image not in names:
                names.append(image)
            stages.add(rest[1] if len(rest) == 2 and rest[0].upper() == "AS" else f"stage {len(stages)}")
    for name in names:
        if "@" in name:
            raise HarnessError(
                f"FROM {name} names a digest, which no image made on this machine can have: let the Dockerfile take it "
                "from an ARG with that default, and give build_args without the digest"
            )
    return names


def _local_names(name: str) -> list[str]:
    """The names under which buildah looks for a FROM."""
    full = full_name(name)
    return [full] if "/" in name else [full, f"localhost/{full.removeprefix('docker.io/library/')}"]


def _base_tag() -> str:
    """The name of the image that stands in for every FROM, by what it is made from."""
    recipe = [_codename(), *_BASE_PACKAGES, _BASE_SETUP, *(file.read_text() for file in _apt_sources())]
    return f"localhost/claimq-base:{hashlib.sha256(chr(0).join(recipe).encode()).hexdigest()[:16]}"


def _base_image() -> str:
    """The image that stands in for every FROM; made once for the same packages and sources."""
    codename, sources, tag = _codename(), _apt_sources(), _base_tag()
    if _buildah("images", "--quiet", "--filter", f"reference={tag}").strip():
        return tag
    say(f"making a base image of Debian {codename} with Python")
    folder = cache_folder() / "base"
    shutil.rmtree(folder, ignore_errors=True)  # what an earlier run left half made
    folder.mkdir(parents=True)
    archive = folder / "root.tar"
    setup = folder / "setup"
    setup.write_text(_BASE_SETUP)
    words = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--quiet",
        f"--include={','.join(_BASE_PACKAGES)}",
    ]
    run(
        [*ALONE, *words, f'--customize-hook=sh {setup} "$1"', codename, archive, *sources],
        env={**os.environ, "TMPDIR": str(folder)},
        timeout=900,
    )
    container = _buildah("from", "scratch").strip()
    try:
        _buildah("add", "--quiet", container, str(archive), "/")
        _buildah("config", f"--env=PATH={_PATH}", "--env=LANG=C.UTF-8", "--cmd=python3", container)
        _buildah("commit", "--quiet", "--format=docker", f"--signature-policy={_policy()}", container, tag)
    finally:
        _buildah("rm", container)
        shutil.rmtree(folder, ignore_errors=True)
    return tag


def _archive(folder: Path, number: str, full: str) -> Path:
    """The image's archive in the folder of its name; the same image under the same name is written once."""
    archive = folder / f"{number.removeprefix('sha256:')}.tar"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        forget_archives(folder, now=time.time())  # noqa: TID251 - files have the times of this machine
        _forget_old_layers()
        half = archive.with_suffix(".new")
        half.unlink(missing_ok=True)
        _buildah(
            "push", "--quiet", f"--signature-policy={_policy()}", number, f"docker-archive:{half}:{full}"
        )
        half.rename(archive)
    archive.touch()
    return archive


def _forget_old_layers() -> None:
    """Unnamed images are what unchanged layers are built from: all of them go, but only when there are many."""
    if len(_buildah("images", "--quiet", "--filter=dangling=true").split()) > _MOST_LAYERS:
        # No other build runs now, so the containers are left over from killed builds. Layers in use are kept.
        _buildah("rm", "--all")
        _buildah("rmi", "--prune")


def _store() -> Path:
    return cache_folder() / "containers"


def _buildah(*words: str) -> str:
    store = [
        f"--root={_store()}",
        f"--runroot={_store().with_name('containers-run')}",
        "--storage-driver=overlay",
    ]
    return run([*ALONE, "buildah", *store, *words], timeout=_LONGEST_BUILD).stdout


def _policy() -> Path:
    """Nothing is pulled, so there is no signature to check."""
    file = cache_folder() / "policy.json"
    if not file.exists():
        file.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
    return file


def _package_index() -> list[str]:
    """Let pip inside a build reach the packages that pip reaches outside, by the machine's own settings.

    They are shown to the build and don't become part of the image.
    """
    shown = run(["python3", "-m", "pip", "config", "list"], check=False).stdout
    settings = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", shown, re.MULTILINE))
    settings.pop("require-virtualenv", None)
    folder = cache_folder() / "pip"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pip.conf").touch(mode=0o600)  # an address may hold a password
    (folder / "pip.conf").write_text(
        "[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())
    )
    named = [settings.get(name, "") for name in ("cert", "find-links")]
    shown_too = [path for path in named if path.startswith("/") and Path(path).exists()]
    return [
        f"--volume={folder / 'pip.conf'}:/etc/pip.conf:ro",
        *(f"--volume={Path(path).resolve()}:{path}:ro" for path in shown_too),
    ]


def _codename() -> str:
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', Path("/etc/os-release").read_text(), re.MULTILINE)
    if not found:
        raise HarnessError(
            "/etc/os-release has no VERSION_CODENAME: the base image is made on Debian and its kin"
        )
    return found[1]


def _apt_sources() -> list[Path]:
    """Where this machine gets its own packages from."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    used = [file for file in files if file.suffix in (".list", ".sources") and _has_entries(file)]
    if not used:
        raise HarnessError("no package source is set in /etc/apt, so no base image can be made")
    return used


def _has_entries(file: Path) -> bool:
    try:
        return bool(re.search(r"^(deb\s|Types:)", file.read_text(), re.MULTILINE))
    except OSError:
        return False
