"""ADAPTER: Cluster over the official Kubernetes client. The only module that imports that client.

Operator and command line list the client among their own requirements: the sidecar, which has this package too, needs
none of it.

Only its configuration and its HTTP transport are used. Objects stay plain JSON; its generated models are not loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as client_config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from claimq_kubernetes.port import (
    BY_KIND,
    PODS,
    ClusterUnavailable,
    Conflict,
    Json,
    Kind,
    NamespaceEnding,
    NotFound,
    Refused,
    part,
    parts,
)

REQUEST_SECONDS = 15.0
_loading: Any = client_config  # its functions have no types
_CONNECTIONS = 32
_FIRST_PAGE, _MOST_PAGE = 10, 100
_PAGE_BYTES = 2 * 1024 * 1024
"""Objects and bytes in a page. Parsing a page needs over five times its size in memory, and tenants choose the size of
their objects."""
_ENDING = "NamespaceTerminating"
"""The cause that the API server gives when it creates nothing in a namespace that is being deleted."""
_REFUSALS = ("field not declared in schema", "duplicate entries")
"""Words of the API server in its answer 500 to an apply of an invalid object. Retrying does not help."""
OnRequest = Callable[[str, str, str], None]
"""Called after each request with its verb, the plural of its kind and the status code (or "unreachable")."""


class KubernetesClient:
    """Requests to one API server, over a connection pool. Call :meth:`close` at the end."""

    def __init__(
        self, configuration: Any, on_request: OnRequest, *, manager: str = "claimq-operator"
    ) -> None:
        """``manager``: the field manager of patches and of created objects."""
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.retries = 0
        self._configuration = configuration
        self._rest: Any = RESTClientObject(configuration)
        self._on_request = on_request
        self._manager = manager

    @classmethod
    async def connect(cls, on_request: OnRequest, *, manager: str = "claimq-operator") -> KubernetesClient:
        """Uses the pod's service account, or else the kubeconfig. Raises ClusterUnavailable if there is neither."""
        configuration: Any = Configuration()
        try:
            _loading.load_incluster_config(client_configuration=configuration)
        except client_config.ConfigException:
            try:
                await _loading.load_kube_config(client_configuration=configuration, persist_config=False)
            except client_config.ConfigException as error:
                raise ClusterUnavailable(
                    f"no access to a cluster: the process has no service account of a pod and no kubeconfig ({error})"
                ) from error
        return cls(configuration, on_request, manager=manager)

    async def close(self) -> None:
        """Closes its connections."""
        await self._rest.close()

    async def has_kind(self, kind: Kind) -> bool:
        """Whether the list of the kinds of its group and version has it."""
        try:
            resources = await self._request("get", kind, kind.root)
        except NotFound:
            return False
        return any(resource.get("name") == kind.plural for resource in parts(resources, "resources"))

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Reads one object. Raises NotFound."""
        return await self._request("get", kind, kind.path(namespace, name))

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        keep: Callable[[Json], Json] | None = None,
        *,
        fields: str = "",
    ) -> list[Json]:
        """Lists the objects that match the selectors, in pages; ``keep`` is applied to each."""
        objects: list[Json] = []
        following, limit = "", _FIRST_PAGE
        while True:
            query = {"limit": str(limit), "labelSelector": selector, "fieldSelector": fields}
            query["continue"] = following
            raw = await self._send("list", kind, kind.path(namespace), query=query)
            limit = max(1, min(_MOST_PAGE, limit * _PAGE_BYTES // max(1, len(raw))))
            page = json.loads(raw)
            del raw
            items = parts(page, "items")
            objects += items if keep is None else map(keep, items)
            following = str(part(page, "metadata").get("continue") or "")
            if not following:
                return objects

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        """Server-side apply; with ``force`` it takes over fields of other managers."""
        kind, metadata = BY_KIND[body["kind"]], body["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"], subresource)
        # A status is written in part where an older definition of the kind does not have all of its fields.
        validation = "" if subresource else "Strict"
        query = {"fieldManager": manager, "force": "true" if force else "", "fieldValidation": validation}
        return await self._request("apply", kind, path, body=body, query=query, content="apply-patch+yaml")

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        """Sends a merge patch."""
        query = {"fieldManager": self._manager}
        path = kind.path(namespace, name)
        return await self._request("patch", kind, path, body=changes, query=query, content="merge-patch+json")

    async def create(self, kind: Kind, body: Json) -> Json:
        """Creates an object. A field that the API server does not know is refused; it would be dropped otherwise."""
        path = kind.path(part(body, "metadata").get("namespace"))
        query = {"fieldManager": self._manager, "fieldValidation": "Strict"}
        return await self._request("create", kind, path, body=body, query=query)

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Creates an eviction of the pod with that uid."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self._request("create", PODS, PODS.path(namespace, name, "eviction"), body=body)

    async def _request(self, verb: str, kind: Kind, path: str, **options: Any) -> Json:
        return cast("Json", json.loads(await self._send(verb, kind, path, **options)))

    async def _send(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "json",
    ) -> bytes:
        parameters = urlencode({key: text for key, text in (query or {}).items() if text})
        url = f"{self._configuration.host}{path}{f'?{parameters}' if parameters else ''}"
        method = {"get": "GET", "list": "GET", "create": "POST"}.get(verb, "PATCH")
        code = "unreachable"
        try:
            headers = await self._headers(content)
            timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
            reply = await self._rest.request(
                method, url, headers=headers, body=body, _request_timeout=timeout
            )
            raw: bytes = await reply.read()
            code = str(reply.status)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterUnavailable(
                f"the API server does not respond ({type(error).__name__}: {error})"
            ) from error
        finally:
            self._on_request(verb, kind.plural, code)
        if reply.status >= 400:
            raise _error(int(reply.status), raw, f"{verb} of {path}")
        return raw

    async def _headers(self, content: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": f"application/{content}"}
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = str(token)
        return headers


def _error(status: int, raw: bytes, request: str) -> Exception:
    causes: list[Any] = []
    try:
        reply = json.loads(raw)
        message = str(reply.get("message") or "")
        causes = [cause.get("reason") for cause in parts(part(reply, "details"), "causes")]
    except (ValueError, AttributeError):
        message = raw[:200].decode("utf-8", "replace")
    text = f"{request}: {message or f'status {status}'}"
    if status == 404:
        return NotFound(text)
    if status == 409:
        return Conflict(text)
    is_refusal = any(words in message for words in _REFUSALS)
    if status in (401, 429) or (status >= 500 and not is_refusal):
        return ClusterUnavailable(text)
    if status == 403 and _ENDING in causes:
        return NamespaceEnding(text, forbidden=True)
    return Refused(text, forbidden=status == 403)
