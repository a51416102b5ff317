"""etcd, API server, controller manager and scheduler, in a network namespace of their own beside the nodes."""

import json
from dataclasses import dataclass
from pathlib import Path

from clusterkit import rest
from clusterkit.commands import eventually
from clusterkit.errors import HarnessError
from clusterkit.layout import API_PORT, CONTROL, SERVICE_RANGE, Layout
from clusterkit.pki import FRONT_PROXY, Authority
from clusterkit.processes import Processes
from clusterkit.spaces import Space

API_SERVER = "kube-apiserver"
_CONTROLLER_MANAGER = "kube-controller-manager"
_SCHEDULER = "kube-scheduler"
_ETCD = "http://127.0.0.1:2379"
# Which service account asked for what: shows the rights that a program really uses.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


@dataclass(frozen=True)
class ControlPlane:
    """The control plane of one cluster, reached by the proxy at its socket. Its data needn't outlive a power cut."""

    layout: Layout
    processes: Processes

    def start(self) -> None:
        """Start all of it and wait until the API server is ready."""
        (self.layout.secrets / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
        self._start(
            "etcd",
            *(
                "--name=etcd",
                f"--data-dir={self.layout.folder / 'etcd'}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ),
            *(f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}"),
            *(
                "--listen-peer-urls=http://127.0.0.1:2380",
                "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            ),
            "--initial-cluster=etcd=http://127.0.0.1:2380",
        )
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server, wait until it is ready, and start or restart its clients in the control plane.

        In other clusters, controller manager and scheduler exit when they cannot renew their leadership, and are
        restarted. Here they run without leader election: without a restart their watches would resume up to a minute
        after the API server. If the pod of a ReplicaSet is created and deleted in that time, it gets another one only
        after five minutes (kubernetes/kubernetes issue 129795).
        """
        self._start(API_SERVER, *self._apiserver_flags())
        self.wait_ready()
        scheduler_flags = [f"--kubeconfig={self._config(_SCHEDULER)}", "--leader-elect=false"]
        for program, flags in (
            (_CONTROLLER_MANAGER, self._controller_manager_flags()),
            (_SCHEDULER, scheduler_flags),
        ):
            self.processes.stop(program)
            self._start(program, *flags)

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            if not self.processes.alive(API_SERVER):
                raise HarnessError(f"the API server ended:\n{self.processes.tail(API_SERVER)}")
            return self._says_ready()

        eventually(
            "the API server is ready",
            is_ready,
            every=0.25,
            why_not=lambda: self.processes.tail(API_SERVER),
        )

    def _says_ready(self) -> bool:
        try:
            return rest.request(self.layout.api_socket, "GET", "/readyz", timeout=10) == "ok"
        except HarnessError:
            return False

    def _space(self) -> Space:
        return Space(CONTROL.name, self.processes)

    def _start(self, program: str, *flags: str) -> None:
        self.processes.start(
            program, [*self._space().entering(mounts=False), self.layout.programs / program, *flags]
        )

    def _config(self, user: str) -> Path:
        return Authority(self.layout).kubeconfig(user)

    def _apiserver_flags(self) -> list[str]:
        pki = Authority(self.layout)
        return [
            f"--etcd-servers={_ETCD}",
            f"--advertise-address={CONTROL.address}",
            f"--secure-port={API_PORT}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            f"--client-ca-file={pki.certificate('ca')}",
            f"--tls-cert-file={pki.certificate('apiserver')}",
            f"--tls-private-key-file={pki.key('apiserver')}",
            f"--kubelet-certificate-authority={pki.certificate('ca')}",
            f"--kubelet-client-certificate={pki.certificate('apiserver-to-kubelet')}",
            f"--kubelet-client-key={pki.key('apiserver-to-kubelet')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki.public_key('service-accounts')}",
            f"--service-account-signing-key-file={pki.key('service-accounts')}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--audit-policy-file={self.layout.secrets / 'audit-policy.json'}",
            f"--audit-log-path={self.layout.audit_log}",
            *self._aggregation_flags(),
        ]

    def _aggregation_flags(self) -> list[str]:
        """For APIs that pods serve, such as the metrics of an autoscaler. Control plane and nodes reach pods alike."""
        pki = Authority(self.layout)
        return [
            f"--requestheader-client-ca-file={pki.certificate('ca')}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki.certificate(FRONT_PROXY)}",
            f"--proxy-client-key-file={pki.key(FRONT_PROXY)}",
            "--enable-aggregator-routing=true",
        ]

    def _controller_manager_flags(self) -> list[str]:
        pki = Authority(self.layout)
        return [
            f"--kubeconfig={self._config(_CONTROLLER_MANAGER)}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--root-ca-file={pki.certificate('ca')}",
            f"--service-account-private-key-file={pki.key('service-accounts')}",
            f"--cluster-signing-cert-file={pki.certificate('ca')}",
            f"--cluster-signing-key-file={pki.key('ca')}",
            # A node that is cut off is noticed in 20 s instead of 50, so that tests of it needn't take minutes.
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=20s",
        ]
