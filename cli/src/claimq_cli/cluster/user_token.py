"""The token with which kubectl logs in to a cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, cast

from claimq_admin.errors import REFUSED, CommandError
from claimq_cli.cluster.kubectl import Kubectl
from claimq_kubernetes.port import part

_SECONDS = 30
_ADVICE = "set CLAIMQ_WEB_TOKEN to one, for instance from: kubectl create token NAME --namespace NAMESPACE"


def user_token(kubectl: Kubectl) -> str:
    """The token of the user in kubectl's configuration: in it, in a file, or from a program that it names.

    CommandError for a user with a certificate or another login.
    """
    user = part(kubectl.config_part("users"), "user")
    if token := user.get("token"):
        return str(token)
    if file := user.get("tokenFile"):
        return Path(file).read_text("utf-8").strip()
    if program := part(user, "exec"):
        return _token_of(program)
    raise CommandError(
        f"the user of kubectl has no token (but a certificate, or no login); {_ADVICE}", REFUSED
    )


def _token_of(program: dict[str, Any]) -> str:
    """The token that a credential plugin of kubectl prints; see "client-go credential plugins" of Kubernetes."""
    variables = cast("list[dict[str, str]]", program.get("env") or [])
    plugin_env = {variable["name"]: variable["value"] for variable in variables}
    info = {"apiVersion": program["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    words = [str(program["command"]), *cast("list[str]", program.get("args") or [])]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **plugin_env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        token = json.loads(done.stdout)["status"]["token"]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        raise CommandError(
            f"the program {words[0]} of kubectl's user gave no token; {_ADVICE}", REFUSED
        ) from error
    return str(token)
