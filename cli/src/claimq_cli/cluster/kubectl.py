"""Runs kubectl with its own configuration, so that every way to log in to a cluster works."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass
from typing import Any

from claimq_admin.errors import NOT_DONE, UNAVAILABLE, CommandError
from claimq_kubernetes.deep_json import DeepDecoder

KIND = "reliablequeues.claimq.dev"
_SECONDS = 30


def selected(namespace: str | None, context: str | None) -> Kubectl | None:
    """kubectl for the options --namespace and --context of a command; None without both."""
    return None if namespace is None and context is None else Kubectl(context or "", namespace or "")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a context and a namespace. An empty text is that of kubectl's configuration."""

    context: str = ""
    namespace: str = ""

    @property
    def options(self) -> list[str]:
        """The options with which a command of the user chooses the same, as words of a shell."""
        options = [f"--context {shlex.quote(self.context)}"] if self.context else []
        return options + ([f"-n {shlex.quote(self.namespace)}"] if self.namespace else [])

    def command(self, *words: str, namespace: str = "") -> list[str]:
        """The command line of kubectl with these arguments."""
        options = [f"--context={self.context}"] if self.context else []
        where = namespace or self.namespace
        options += [f"--namespace={where}"] if where else []
        return ["kubectl", *words, *options]

    def get(self, *words: str) -> Any:
        """What `kubectl get WORDS` prints as JSON. CommandError with kubectl's message if it fails."""
        return self._read(*words, "--output=json")

    def get_path(self, path: str) -> Any:
        """The JSON at a path of the API. CommandError with kubectl's message if it fails."""
        return self._read(f"--raw={path}")

    def _read(self, *words: str) -> Any:
        return json.loads(self._run(self.command("get", *words, "--request-timeout=10s")), cls=DeepDecoder)

    def delete_pod(self, name: str) -> None:
        """Deletes a pod without waiting for its end. CommandError if kubectl fails."""
        self._run(self.command("delete", f"pod/{name}", "--wait=false", "--request-timeout=10s"))

    def may(self, verb: str, resource: str, subresource: str = "") -> bool:
        """Whether the user has this permission in the namespace. CommandError if kubectl fails."""
        words = [verb, resource, *([f"--subresource={subresource}"] if subresource else [])]
        done = self._finished(self.command("auth", "can-i", *words, "--request-timeout=10s"))
        answer = done.stdout.split()[:1]
        if answer not in (["yes"], ["no"]):
            raise _error_of(done)
        return answer == ["yes"]

    def _run(self, command: list[str]) -> str:
        done = self._finished(command)
        if done.returncode:
            raise _error_of(done)
        return done.stdout

    def _finished(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except FileNotFoundError as error:
            raise CommandError(
                "kubectl, which reads ReliableQueues from a cluster, is not installed"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise CommandError(
                f"kubectl did not respond within {_SECONDS} s; check its context", UNAVAILABLE
            ) from error


def _error_of(done: subprocess.CompletedProcess[str]) -> CommandError:
    message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it printed no error"
    return CommandError(f"kubectl: {message}", NOT_DONE if "NotFound" in message else UNAVAILABLE)
