"""A Kubernetes API server without a cluster: etcd and kube-apiserver on loopback ports, ready in a few seconds.

It holds and checks objects; nothing acts on them, no pod runs. It needs no root, only the program that
`clusterkit.build` makes once and keeps.
"""

import http.client
import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from clusterkit import build
from clusterkit.commands import LESS_COLLECTING
from testkit.programs.places import new_directory
from testkit.programs.ports import free_port
from testkit.programs.processes import Process
from testkit.repository.tree import ROOT
from testkit.servers.started import Started
from testkit.waiting import PATIENCE, eventually_sync

IDLE_SECONDS = 30.0
"""The API server ends connections on which nothing has come for 90 s; what is sent on one of these is lost."""
ADMIN = "admin"
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": [ADMIN, "system:apiserver", "system:anonymous"]},
        {"level": "Metadata"},
    ],
}


class Refused(Exception):
    """What kubectl, or the API server, said when it failed."""


class ApiServer(Started):
    """An API server of a test's own. All of it is gone when it is closed."""

    def __init__(self, *users: str) -> None:
        """Does not start it. Builds Kubernetes if need be; HarnessError when that can't be done here.

        The test itself may do everything; ``users`` may do what roles give them, and what they ask for is logged.
        """
        program = build.kubernetes()
        self.dir = new_directory()
        self._bin = self.dir / "bin"
        self._bin.mkdir()
        for name in ("etcd", "kube-apiserver", "kubectl"):
            (self._bin / name).symlink_to(program)
        self.port = free_port()
        self._etcd_ports = (free_port(), free_port())
        self._tokens = {user: secrets.token_hex(16) for user in (ADMIN, *users)}
        self._processes: list[Process] = []
        self._connection: http.client.HTTPSConnection | None = None
        self._used_at = 0.0

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """The file by which kubectl and client libraries find it, as one of its users."""
        return self.dir / f"{user.replace(':', '.')}.kubeconfig"

    def audit_log(self) -> list[Any]:
        """What was asked for so far, by anybody but the test: verb, object and answer."""
        text = (self.dir / "audit.log").read_text()
        whole = text[: text.rfind("\n") + 1]  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines()]

    def start(self) -> Self:
        """Starts both and waits until the API server answers."""
        self._write_files()
        client, peer = (f"http://127.0.0.1:{port}" for port in self._etcd_ports)
        self._run(
            "etcd",
            f"--data-dir={self.dir / 'etcd'}",
            "--name=etcd",
            f"--initial-cluster=etcd={peer}",
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            *("--unsafe-no-fsync", "--log-level=warn"),
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={client}",
            f"--secure-port={self.port}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
            # Kubernetes 1.37 refuses a loopback address for the endpoints of its own service. Nothing here uses them.
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.dir}",
            "--service-cluster-ip-range=10.0.0.0/24",
            *("--service-account-issuer=https://kubernetes", "--authorization-mode=RBAC"),
            f"--audit-policy-file={self.dir / 'audit-policy'}",
            f"--audit-log-path={self.dir / 'audit.log'}",
            f"--service-account-key-file={self.dir / 'sa.key'}",
            f"--service-account-signing-key-file={self.dir / 'sa.key'}",
            f"--token-auth-file={self.dir / 'tokens'}",
            # No controller makes service accounts, and pods would be refused without.
            "--disable-admission-plugins=ServiceAccount",
        )
        eventually_sync(self._is_ready, why="the API server is ready", needs=self._processes)
        return self

    def _is_ready(self) -> bool:
        try:
            return self.request("GET", "/readyz") == (200, "ok")
        except (OSError, http.client.HTTPException):
            self._connected().close()  # the next request connects again
            return False

    def define_queues(self) -> None:
        """Brings the definition of ReliableQueues, and waits until requests of the kind are answered, by name and by
        the schema for clients."""
        self.kubectl("create", "-f", str(ROOT / "crds" / "reliablequeues.claimq.dev.yaml"))
        self.wait_until_defined()

    def wait_until_defined(self) -> None:
        """The same, where another release brings the definition. `kubectl wait` for Established would fail at once if
        the definition has no conditions yet."""
        path = "/apis/claimq.dev/v1alpha1/reliablequeues"
        eventually_sync(lambda: self.request("GET", path)[0] == 200, needs=self._processes)
        eventually_sync(
            lambda: self.kubectl_run("explain", "reliablequeues.spec").returncode == 0, needs=self._processes
        )

    def log_tail(self, lines: int = 20) -> str:
        """The end of what both printed."""
        return "\n".join((self.dir / "log").read_text(errors="replace").splitlines()[-lines:])

    def environment(self) -> dict[str, str]:
        """The environment in which kubectl and helm find it."""
        home = {"HOME": str(self.dir), "KUBECONFIG": str(self.kubeconfig())}
        return {**os.environ, **home, **LESS_COLLECTING, "PATH": f"{self._bin}:{os.environ['PATH']}"}

    def kubectl_run(self, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs kubectl to its end; the caller looks at how it ended."""
        return subprocess.run(
            [self._bin / "kubectl", *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self.environment(),
            check=False,
        )

    def kubectl(self, *argv: str, stdin: str = "") -> str:
        """What kubectl printed; Refused with its words when it failed."""
        done = self.kubectl_run(*argv, stdin=stdin)
        if done.returncode:
            raise Refused(done.stderr.strip())
        return done.stdout

    def create(self, document: Mapping[str, Any]) -> Any:
        """Creates one object, by a request, which costs less than a kubectl. Returns the object as it is stored.

        Unknown fields are refused. The plural of its kind ends in a mere `s`. Raises Refused.
        """
        version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
        group = f"apis/{version}" if "/" in version else f"api/{version}"
        scope = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
        path = f"/{group}/{scope}{kind.lower()}s?fieldValidation=Strict"
        status, answer = self.request("POST", path, document)
        if status != 201:
            raise Refused(answer)
        return answer

    def token(self, namespace: str, account: str) -> str:
        """A new token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec = {"expirationSeconds": 3600}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        status, answer = self.request("POST", path, body)
        if status != 201:
            raise Refused(answer)
        return str(answer["status"]["token"])

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request without kubectl; the status and the JSON (or text) that came back.

        PATCH is a merge patch. One thread at a time.
        """
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._tokens[ADMIN]}", "Content-Type": kind}
        sent = None if body is None else json.dumps(body)
        connection = self._connected()
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if text.startswith("{") else text

    def _connected(self) -> http.client.HTTPSConnection:
        """One connection for requests that come soon one after the other."""
        if self._connection is not None and time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()  # the next request connects again
        self._used_at = time.monotonic()
        if self._connection is None:
            unverified = ssl.create_default_context()
            unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=PATIENCE, context=unverified
            )
        return self._connection

    def get(self, *what: str) -> Any:
        """`kubectl get -o json`."""
        return json.loads(self.kubectl("get", "-o", "json", *what))

    def _write_files(self) -> None:
        made = subprocess.run(
            ["openssl", "genpkey", "-algorithm", "RSA"], capture_output=True, check=True, timeout=PATIENCE
        )
        (self.dir / "sa.key").write_bytes(made.stdout)
        groups = {ADMIN: ",system:masters"}
        lines = [f"{token},{user},{user}{groups.get(user, '')}\n" for user, token in self._tokens.items()]
        (self.dir / "tokens").write_text("".join(lines))
        (self.dir / "audit-policy").write_text(json.dumps(_AUDIT_POLICY))
        for user, token in self._tokens.items():
            self._write_kubeconfig(self.kubeconfig(user), token)

    def _write_kubeconfig(self, file: Path, token: str) -> None:
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        file.write_text(json.dumps(config))
        file.chmod(0o600)

    def _run(self, name: str, *flags: str) -> None:
        self._processes.append(Process([self._bin / name, *flags], log=self.dir / "log", env=LESS_COLLECTING))

    def close(self) -> None:
        """Ends both and removes every file."""
        if self._connection is not None:
            self._connection.close()
        for process in reversed(self._processes):
            process.kill9()
        shutil.rmtree(self.dir, ignore_errors=True)
