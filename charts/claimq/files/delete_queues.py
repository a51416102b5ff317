"""Deletes all queues for `helm uninstall` with crds.keep=false, and waits until they and their children are gone.

The operator removes its finalizer from the queues, and the cluster collects their children. It does so only while the
definition of their owner exists, so this waits for the children too. The Leases that record which release manages a
namespace have no owner and are deleted last.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
PATH = "/apis/claimq.dev/v1alpha1"
CHILDREN = {"deployment": "/apis/apps/v1/deployments", "pdb": "/apis/policy/v1/poddisruptionbudgets"}
SELECTOR = {"labelSelector": "claimq.dev/queue,app.kubernetes.io/managed-by=claimq-operator"}
LEASES = "/apis/coordination.k8s.io/v1"
LEASE = "queues.claimq.dev"
PAGE = 100
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""What lists ask for: an object can have a megabyte, and the Job has little memory."""
PAUSE_SECONDS = 1.0


def ask(method: str, path: str) -> Any:
    """A request to the API server; None for status 404."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    token = (ACCOUNT / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"} | ({"Accept": METADATA} if method == "GET" else {})
    request = urllib.request.Request(f"https://{host}:{port}{path}", method=method, headers=headers)
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=15, context=trusted) as reply:  # noqa: S310 - as above
            return json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def listed(path: str, selector: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """Name, namespace and deletion time of all objects, read in pages; none if there is no such path."""
    query = {"limit": str(PAGE), "continue": "", **(selector or {})}
    while found := ask("GET", f"{path}?{urllib.parse.urlencode(query)}"):
        for one in found["items"] or []:  # null in an empty list of metadata
            kept = ("name", "namespace", "deletionTimestamp")
            yield {name: one["metadata"][name] for name in kept if name in one["metadata"]}
        query["continue"] = found["metadata"].get("continue") or ""
        if not query["continue"]:
            return


def queues() -> list[dict[str, Any]]:
    """All queues; none if the definition does not exist."""
    return list(listed(f"{PATH}/reliablequeues"))


def children() -> list[str]:
    """Children of queues that are not collected yet, as arguments of kubectl."""
    return [
        f"{kind} {one['name']} --namespace {one['namespace']}"
        for kind, path in CHILDREN.items()
        for one in listed(path, SELECTOR)
    ]


def left_over() -> tuple[list[dict[str, Any]], list[str]]:
    """Deletes the queues that exist and returns them; if there are none, the children that are not collected yet."""
    left = queues()
    for one in left:
        if "deletionTimestamp" not in one:
            ask("DELETE", f"{PATH}/namespaces/{one['namespace']}/reliablequeues/{one['name']}")
            print(f"deleted the queue {one['namespace']}/{one['name']}", flush=True)
    return left, [] if left else children()


def delete_leases() -> None:
    """Deletes the Lease of each namespace that had queues. The permission is for Leases of this name only."""
    for one in list(listed(f"{LEASES}/leases", {"fieldSelector": f"metadata.name={LEASE}"})):
        ask("DELETE", f"{LEASES}/namespaces/{one['namespace']}/leases/{one['name']}")


def main() -> int:
    """Exit code 0 when no queue is left; otherwise 1, and the log has the queues and the fix."""
    patience = float(os.environ["TIMEOUT"].removesuffix("s"))
    start, last_error = time.monotonic(), ""
    while True:
        try:
            left, rest = left_over()
            if not (left or rest):
                delete_leases()
            last_error = ""
        except OSError as error:  # the API server restarts or does not know the permissions yet: retry
            left, rest = [], []
            if last_error != str(error):
                print(f"the API server failed, retrying: {error}", flush=True)
            last_error = str(error)
        if not (left or rest or last_error):
            print("no queue and no child of a queue is left")
            return 0
        if time.monotonic() - start > patience:
            report(left, rest, patience)
            return 1
        time.sleep(PAUSE_SECONDS)


def report(left: list[dict[str, Any]], rest: list[str], patience: float) -> None:
    """Prints why nothing was uninstalled, and the fix."""
    if rest:
        print(f"children of deleted queues are left after {patience:.0f} s; nothing was uninstalled:")
        for child in rest:
            print(f"  kubectl delete {child}")
        return
    if not left:
        print(f"nothing was uninstalled, since the API server failed for {patience:.0f} s;")
        print("uninstall again when it works")
        return
    print(f"queues are left after {patience:.0f} s, so nothing was uninstalled; their conditions:")
    for one in left:
        print(f"  kubectl describe reliablequeue {one['name']} --namespace {one['namespace']}")
    print(
        "The operator stops waiting for an unreachable server after five minutes: then uninstall again. If the"
    )
    print("operator no longer exists, remove the finalizers by hand and uninstall again:")
    patch = '{"metadata":{"finalizers":null}}'
    for one in left:
        words = f"reliablequeue {one['name']} --namespace {one['namespace']} --type merge"
        print(f"  kubectl patch {words} --patch '{patch}'")


if __name__ == "__main__":
    sys.exit(main())
