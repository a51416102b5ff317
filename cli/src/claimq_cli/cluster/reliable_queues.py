"""Reads ReliableQueues and their Secrets, with the permissions of the user who runs the command."""

from __future__ import annotations

from pathlib import Path

from claimq.errors import InvalidSpec
from claimq_admin.cluster.server_settings import ClusterQueue, queue_of, secrets_of
from claimq_admin.errors import NOT_DONE, CommandError, lines_of
from claimq_cli.cluster.kubectl import KIND, Kubectl
from claimq_control.grants import Grants
from claimq_control.manifest import parse_manifest
from claimq_kubernetes.port import Json
from claimq_process.certificates import Certificates


class ReliableQueues:
    """Reads the ReliableQueues of a namespace."""

    def __init__(self, kubectl: Kubectl, directory: Path, hosts: Grants, *, retry_for: float) -> None:
        """``directory``: for certificates, readable only by this user. The others: see :func:`queue_of`."""
        self._kubectl = kubectl
        self._hosts = hosts
        self._certificates = Certificates(directory)
        self._retry_for = retry_for
        self._secrets: dict[tuple[str, str], Json] = {}

    def read(self, name: str) -> ClusterQueue:
        """The ReliableQueue of this name. CommandError if kubectl fails or a password must not be sent; InvalidSpec."""
        return self._queue(self._kubectl.get(f"{KIND}/{name}"))

    def read_all(self) -> tuple[list[ClusterQueue], list[str]]:
        """All ReliableQueues of the namespace that can be used, and a line with the error of each other one.

        CommandError if kubectl fails or there is none.
        """
        bodies: list[Json] = self._kubectl.get(KIND)["items"]
        if not bodies:
            raise CommandError(
                "the namespace has no ReliableQueue; choose another with --namespace", NOT_DONE
            )
        queues: list[ClusterQueue] = []
        problems: list[str] = []
        for body in bodies:
            try:
                queues.append(self._queue(body))
            except (CommandError, InvalidSpec) as error:
                problems.append(f"{body['metadata']['name']}: {'; '.join(lines_of(error))}")
        return queues, problems

    def _queue(self, body: Json) -> ClusterQueue:
        manifest = parse_manifest(body, stored=True)
        secrets = {name: self._secret(manifest.namespace, name) for name in secrets_of(manifest)}
        return queue_of(
            manifest, body, secrets, self._certificates, hosts=self._hosts, retry_for=self._retry_for
        )

    def _secret(self, namespace: str, name: str) -> Json:
        key = (namespace, name)
        if key not in self._secrets:
            body = self._kubectl.get(f"secret/{name}", f"--namespace={namespace}")
            self._secrets[key] = body.get("data") or {}
        return self._secrets[key]
