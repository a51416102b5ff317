"""An existing cluster (kind, k3d, minikube, a real one), named by KUBE_CONTEXT."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from clusterkit import images
from clusterkit.cluster import Cluster
from clusterkit.commands import eventually, run
from clusterkit.errors import CommandFailed, HarnessError
from clusterkit.images import BuiltImage


class ExistingCluster(Cluster):
    """Only that context can be used through it, whatever the user's kubeconfig says at the time.

    Raises HarnessError when kubectl is missing, the context is unknown or the cluster doesn't answer.
    """

    def __init__(self, context: str, registry: str | None = None) -> None:
        if not shutil.which("kubectl"):
            raise HarnessError("KUBE_CONTEXT is set, and kubectl is not on this machine: install it")
        self.name = context
        self.is_own = False
        self._registry = registry
        self._folder = Path(tempfile.mkdtemp(prefix="claimq-cluster-"))
        self._proxy: subprocess.Popen[bytes] | None = None
        try:
            self._write_kubeconfig(context)
            self.nodes = self.kubectl(
                "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}", timeout=30
            ).split()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End what was started and delete the copy of the login. The cluster is left alone."""
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait()
            self._proxy = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def entering(self) -> list[str]:
        return []

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self._folder / "kubeconfig")}

    def api_socket(self) -> Path:
        socket = self._folder / "api.sock"
        if self._proxy is None or self._proxy.poll() is not None:
            self._proxy = self.popen("kubectl", "proxy", f"--unix-socket={socket}")
            eventually("kubectl proxy serves", socket.exists)
        return socket

    def forward(self, namespace: str, service: str, port: int) -> AbstractContextManager[int]:
        return self._forward(namespace, service, port)

    def build_image(
        self,
        dockerfile: Path,
        tag: str,
        *,
        target: str | None = None,
        context: Path | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> BuiltImage:
        engine = next((name for name in ("docker", "podman") if shutil.which(name)), None)
        if engine is None:
            return images.build_image(dockerfile, tag, target=target, context=context, build_args=build_args)
        full = images.full_name(tag)
        words = [
            engine,
            "build",
            f"--tag={full}",
            f"--file={dockerfile}",
            *([f"--target={target}"] if target else []),
        ]
        words += [f"--build-arg={name}={value}" for name, value in (build_args or {}).items()]
        run([*words, context or dockerfile.parent], timeout=1800)
        archive = self._folder / f"{len(list(self._folder.glob('*.tar')))}.tar"
        run([engine, "save", f"--output={archive}", full], timeout=600)
        return BuiltImage(full, archive)

    def load_image(self, image: BuiltImage) -> str:
        kind, _, cluster = self.name.partition("-")
        if self._registry:
            return self._push(image, self._registry)
        if kind == "kind" and cluster:
            self._load("kind", "load", "image-archive", str(image.archive), f"--name={cluster}")
        elif kind == "k3d" and cluster:
            self._load("k3d", "image", "import", str(image.archive), f"--cluster={cluster}")
        elif shutil.which("minikube") and self.name in _minikube_profiles():
            self._load("minikube", "image", "load", str(image.archive), f"--profile={self.name}")
        else:
            raise HarnessError(
                f"the context {self.name!r} is neither kind's, k3d's nor minikube's: set IMAGE_REGISTRY to a registry "
                "that you may push to and the cluster may pull from (such as registry.example/team)"
            )
        return image.tag

    def _load(self, *argv: str) -> None:
        if not shutil.which(argv[0]):
            raise HarnessError(
                f"the context {self.name!r} needs {argv[0]} on this machine, or IMAGE_REGISTRY"
            )
        run(argv, timeout=600)

    def _push(self, image: BuiltImage, registry: str) -> str:
        there = f"{registry.rstrip('/')}/{image.tag.rpartition('/')[2]}"
        engine = next((name for name in ("docker", "podman") if shutil.which(name)), None)
        if engine:
            run([engine, "tag", image.tag, there])
            run([engine, "push", there], timeout=1800)
        elif shutil.which("skopeo"):
            run(["skopeo", "copy", f"docker-archive:{image.archive}", f"docker://{there}"], timeout=1800)
        else:
            raise HarnessError(
                "to push to IMAGE_REGISTRY, docker, podman or skopeo is needed: install one of them"
            )
        return there

    @contextmanager
    def _forward(self, namespace: str, service: str, port: int) -> Generator[int]:
        said = self._folder / f"forward-{namespace}-{service}-{port}.log"
        with said.open("wb") as output:
            words = ["port-forward", f"--namespace={namespace}", f"service/{service}", f":{port}"]
            forwarding = self.popen("kubectl", *words, output=output)
        try:

            def found() -> re.Match[str] | None:
                return re.search(r"127\.0\.0\.1:(\d+)", said.read_text())

            eventually(f"{service} is forwarded", lambda: found() is not None, why_not=said.read_text)
            match = found()
            if match is None:
                raise HarnessError(f"kubectl port-forward took its words back: {said.read_text()}")
            yield int(match[1])
        finally:
            forwarding.terminate()
            forwarding.wait()

    def _write_kubeconfig(self, context: str) -> None:
        try:
            text = run(
                ["kubectl", "config", "view", f"--context={context}", "--minify", "--flatten", "--raw"]
            ).stdout
        except CommandFailed as error:
            raise HarnessError(f"KUBE_CONTEXT={context}: kubectl knows no such context: {error}") from error
        file = self._folder / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(text)


def _minikube_profiles() -> set[str]:
    with contextlib.suppress(CommandFailed):
        return set(run(["minikube", "profile", "list", "--output=json"]).stdout.replace('"', " ").split())
    return set()
