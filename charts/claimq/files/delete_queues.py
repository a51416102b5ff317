"""`helm uninstall` with crds.keep=false: deletes all queues, and waits until they are gone, and their children.

The operator lets go of queues, the cluster collects their children. It does so only while there is a definition of what
owned them, so they are waited for too.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
PATH = "/apis/claimq.dev/v1alpha1"
CHILDREN = {"deployment": "/apis/apps/v1/deployments", "pdb": "/apis/policy/v1/poddisruptionbudgets"}
SELECTOR = "labelSelector=claimq.dev/queue,app.kubernetes.io/managed-by%3Dclaimq-operator"
PAUSE_SECONDS = 1.0


def ask(method: str, path: str) -> Any:
    """A request to the API server; None for what is not there."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    token = (ACCOUNT / "token").read_text().strip()
    request = urllib.request.Request(
        f"https://{host}:{port}{path}", method=method, headers={"Authorization": f"Bearer {token}"}
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=15, context=trusted) as reply:  # noqa: S310 - as above
            return json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def queues() -> list[dict[str, Any]]:
    """All that there are; none where there is no definition."""
    found = ask("GET", f"{PATH}/reliablequeues")
    return [one["metadata"] for one in found["items"]] if found else []


def children() -> list[str]:
    """What belongs to queues and is not collected yet, as kubectl takes it."""
    return [
        f"{kind} {one['metadata']['name']} --namespace {one['metadata']['namespace']}"
        for kind, path in CHILDREN.items()
        for one in ask("GET", f"{path}?{SELECTOR}")["items"]
    ]


def left_over() -> tuple[list[dict[str, Any]], list[str]]:
    """Queues that are not gone, each told to go; without any, their children that are not collected yet."""
    left = queues()
    for one in left:
        if "deletionTimestamp" not in one:
            ask("DELETE", f"{PATH}/namespaces/{one['namespace']}/reliablequeues/{one['name']}")
            print(f"deleted the queue {one['namespace']}/{one['name']}", flush=True)
    return left, [] if left else children()


def main() -> int:
    """0 when no queue is left; else 1, and the log says which and what to do."""
    patience = float(os.environ["TIMEOUT"].removesuffix("s"))
    start, told = time.monotonic(), ""
    while True:
        try:
            left, rest = left_over()
            told = ""
        except OSError as error:  # the API server restarts, or does not know the rights yet: asked again
            left, rest = [], []
            if told != str(error):
                print(f"the API server did not do it, so it is asked again: {error}", flush=True)
            told = str(error)
        if not (left or rest or told):
            print("no queue is left, and nothing that belonged to one")
            return 0
        if time.monotonic() - start > patience:
            tell(left, rest, patience)
            return 1
        time.sleep(PAUSE_SECONDS)


def tell(left: list[dict[str, Any]], rest: list[str], patience: float) -> None:
    """Why nothing was uninstalled, and what to do."""
    if rest:
        print(
            f"no queue is left, but children of queues are, after {patience:.0f} s; nothing was uninstalled:"
        )
        for child in rest:
            print(f"  kubectl delete {child}")
        return
    if not left:
        print(f"nothing was uninstalled, since the API server has not answered well for {patience:.0f} s;")
        print("uninstall again when it does")
        return
    print(f"still there after {patience:.0f} s, so nothing was uninstalled; what the operator says of them:")
    for one in left:
        print(f"  kubectl describe reliablequeue {one['name']} --namespace {one['namespace']}")
    print(
        "It gives a server that it cannot reach up after five minutes: then uninstall again. Is the operator"
    )
    print("itself gone for good, then take their finalizers off by hand, and uninstall again:")
    patch = '{"metadata":{"finalizers":null}}'
    for one in left:
        words = f"reliablequeue {one['name']} --namespace {one['namespace']} --type merge"
        print(f"  kubectl patch {words} --patch '{patch}'")


if __name__ == "__main__":
    sys.exit(main())
