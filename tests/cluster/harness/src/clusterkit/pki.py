"""Certificates and kubeconfigs of a throw-away cluster: one authority, keys on elliptic curves, valid for a month."""

import json
from dataclasses import dataclass
from pathlib import Path

from clusterkit.commands import run
from clusterkit.layout import API_PORT, API_SERVICE, CONTROL, Layout, Node

FRONT_PROXY = "front-proxy-client"
"""Who the API server is to an API that pods serve."""
_DAYS = "30"
_REQUEST = ["req", "-new", "-sha256", "-batch"]


@dataclass(frozen=True)
class Authority:
    """The files below the cluster's pki folder."""

    layout: Layout

    def create(self) -> None:
        self.layout.secrets.mkdir(mode=0o700, parents=True)
        self._key("ca")
        subject = ["-subj", "/CN=claimq-cluster", "-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
        _openssl(
            *_REQUEST,
            "-x509",
            *subject,
            "-days",
            _DAYS,
            "-key",
            self.key("ca"),
            "-out",
            self.certificate("ca"),
        )
        # Service account tokens are signed with the one and checked with the other.
        self._key("service-accounts")
        _openssl(
            "pkey",
            "-in",
            self.key("service-accounts"),
            "-pubout",
            "-out",
            self.public_key("service-accounts"),
        )
        names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ]
        self.issue(
            "apiserver",
            "/CN=kube-apiserver",
            names=names,
            addresses=[CONTROL.address, API_SERVICE, "127.0.0.1"],
        )
        self.issue("apiserver-to-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        self.issue(FRONT_PROXY, f"/CN={FRONT_PROXY}")
        self.user("admin", "/O=system:masters/CN=kubernetes-admin")
        self.user("kube-controller-manager", "/CN=system:kube-controller-manager")
        self.user("kube-scheduler", "/CN=system:kube-scheduler")
        self.user("kube-proxy", "/CN=system:kube-proxy")

    def admit(self, node: Node) -> None:
        """What one node's kubelet needs: who it is to the API server, and what it serves logs and exec with."""
        self.user(f"kubelet-{node.name}", f"/O=system:nodes/CN=system:node:{node.name}")
        self.issue(
            f"serving-{node.name}",
            f"/CN=system:node:{node.name}",
            names=[node.name],
            addresses=[node.address],
        )

    def key(self, name: str) -> Path:
        return self.layout.secrets / f"{name}.key"

    def certificate(self, name: str) -> Path:
        return self.layout.secrets / f"{name}.crt"

    def public_key(self, name: str) -> Path:
        return self.layout.secrets / f"{name}.pub"

    def kubeconfig(self, name: str) -> Path:
        return self.layout.secrets / f"{name}.kubeconfig"

    def issue(
        self, name: str, subject: str, *, names: list[str] | None = None, addresses: list[str] | None = None
    ) -> None:
        """A key and a certificate that serves as a client's and as a server's."""
        alternatives = [f"DNS:{dns}" for dns in names or ()] + [
            f"IP:{address}" for address in addresses or ()
        ]
        extensions = self.layout.secrets / f"{name}.extensions"
        extensions.write_text(
            "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
            + (f"subjectAltName={','.join(alternatives)}\n" if alternatives else "")
        )
        self._key(name)
        request = _openssl(*_REQUEST, "-key", self.key(name), "-subj", subject)
        made: list[str | Path] = ["-days", _DAYS, "-extfile", extensions, "-out", self.certificate(name)]
        authority: list[str | Path] = [
            "-CA",
            self.certificate("ca"),
            "-CAkey",
            self.key("ca"),
            "-CAcreateserial",
        ]
        _openssl("x509", "-req", *authority, *made, stdin=request)

    def user(self, name: str, subject: str) -> None:
        """A client's certificate, and a kubeconfig that names its files."""
        self.issue(name, subject)
        cluster = {
            "server": f"https://{CONTROL.address}:{API_PORT}",
            "certificate-authority": str(self.certificate("ca")),
        }
        user = {"client-certificate": str(self.certificate(name)), "client-key": str(self.key(name))}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "claimq",
            "clusters": [{"name": "claimq", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "claimq", "context": {"cluster": "claimq", "user": name}}],
        }
        self.kubeconfig(name).write_text(json.dumps(config, indent=1))
        self.kubeconfig(name).chmod(0o600)

    def _key(self, name: str) -> None:
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key(name))
        self.key(name).chmod(0o600)


def _openssl(*argv: str | Path, stdin: str | None = None) -> str:
    return run(["openssl", *argv], stdin=stdin).stdout
