"""What is built from sources: Kubernetes and etcd, CoreDNS, KEDA, the pause program. Each once for the same
ingredients."""

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from clusterkit.commands import run
from clusterkit.layout import KUBERNETES_VERSIONS, SOURCES, cache_folder, kubernetes_release
from clusterkit.toolchain import exclusively, go, say

KUBERNETES_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
_VERSION = "k8s.io/component-base/version"


def kubernetes(*, fresh: bool = False) -> Path:
    """The one binary that is every program of KUBERNETES_PROGRAMS, by the name it is started under.

    It has the release of `kubernetes_release()`.
    """
    release = kubernetes_release()
    version = KUBERNETES_VERSIONS[release]
    values = {
        "gitVersion": f"v{version}",
        "gitMajor": version.split(".")[0],
        "gitMinor": version.split(".")[1],
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    flags = " ".join(f"-X {_VERSION}.{name}={value}" for name, value in values.items())
    return _go_build("kubernetes", flags, requirements=release, fresh=fresh) / "kubernetes"


def coredns(*, fresh: bool = False) -> Path:
    return _go_build("coredns", fresh=fresh) / "coredns"


def kube_score(*, fresh: bool = False) -> Path:
    """The program that scores manifests (github.com/zegl/kube-score)."""
    return (
        _go_build("kube-score", packages=["github.com/zegl/kube-score/cmd/kube-score"], fresh=fresh)
        / "kube-score"
    )


def keda(*, fresh: bool = False) -> Path:
    """The folder with KEDA's programs `operator` and `adapter`, and with its manifests in `config`.

    A build takes some 5 minutes on 2 cores, and 3 GB of the module cache.
    """
    module = "github.com/kedacore/keda/v2"

    def add_manifests(result: Path, source: Path) -> None:
        found = run([go(), "list", "-m", "-f", "{{.Dir}}", module], env=_go_environment(), cwd=source).stdout
        shutil.copytree(Path(found.strip()) / "config", result / "config", copy_function=shutil.copyfile)

    packages = [f"{module}/cmd/operator", f"{module}/cmd/adapter"]
    return _go_build("keda", packages=packages, also=add_manifests, fresh=fresh)


def pause(*, fresh: bool = False) -> Path:
    """The program that holds a pod's namespaces."""
    source = SOURCES / "pause" / "pause.c"
    flags = ["-static", "-Os", "-s", "-Wall", "-Werror"]
    compiler = run(["gcc", "--version"]).stdout.splitlines()[0]

    def compile_it(result: Path) -> None:
        run(["gcc", *flags, "-o", result / "pause", source])

    return _once("pause", [compiler, *flags, source.read_text()], compile_it, fresh=fresh) / "pause"


def _go_environment() -> dict[str, str]:
    # GOTOOLCHAIN=local: a Go that is too old says so instead of fetching another one.
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    env["GOFLAGS"] = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
    return env


def _go_build(
    name: str,
    flags: str = "",
    packages: Sequence[str] = (".",),
    also: Callable[[Path, Path], None] | None = None,
    *,
    requirements: str = "go",
    fresh: bool,
) -> Path:
    """The folder with the programs of these packages: one is called `name`, several by their packages.

    `also(result, source)` adds to that folder. The modules are those of the files `requirements`.mod and .sum.
    """
    program, source, env = go(), SOURCES / "go" / name, _go_environment()
    settings = [
        "-trimpath",
        "-mod=readonly",
        f"-modfile={requirements}.mod",
        f"-ldflags=-s -w {flags}".rstrip(),
    ]
    version = run([program, "env", "GOVERSION", "GOOS", "GOARCH"], env=env).stdout
    modules = (f"{requirements}.mod", f"{requirements}.sum")
    files = [
        file.read_text()
        for file in sorted(source.iterdir())
        if file.suffix not in (".mod", ".sum") or file.name in modules
    ]

    def build_it(result: Path) -> None:
        say(
            f"building {name} with {version.split()[0]} (Kubernetes and KEDA take some 5 minutes on 2 cores; once)"
        )
        target = result / name if len(packages) == 1 else f"{result}/"
        words = ["nice", "-n", "10", program, "build", *settings, "-o", target, *packages]
        run(words, env=env, cwd=source, timeout=3600)
        if also:
            also(result, source)

    return _once(name, [version, *settings, *files], build_it, fresh=fresh)


def _once(name: str, ingredients: list[str], make: Callable[[Path], None], *, fresh: bool) -> Path:
    """The folder called `name` made of these ingredients: the one in the cache, or a new one put there whole.

    `fresh` makes it again though it is there, which shows that the recipe still works.
    """
    folder = cache_folder() / "built" / f"{name}-{_digest([platform.machine(), *ingredients])}"
    with exclusively(folder):
        if folder.exists() and not fresh:
            return folder
        half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
        try:
            make(half)
            shutil.rmtree(folder, ignore_errors=True)
            # In one step, so that what is found under its name is whole.
            half.rename(folder)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return folder


def _digest(ingredients: list[str]) -> str:
    whole = hashlib.sha256()
    for part in ingredients:
        whole.update(f"{len(part)}:{part}".encode())
    return whole.hexdigest()[:20]
