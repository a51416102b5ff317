"""ADAPTER: Cluster over the official client of Kubernetes. The only module that imports it.

Just its configuration and its HTTP client are used: objects stay plain JSON, and none of its thousand models is loaded.
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

from claimq_operator.kubernetes_api.port import (
    BY_KIND,
    ClusterUnavailable,
    Conflicting,
    Json,
    Kind,
    NotThere,
    Refused,
    part,
    parts,
)

REQUEST_SECONDS = 15.0
_loading: Any = client_config  # its functions have no types
_CONNECTIONS = 32
_PAGE = 100
"""A page is parsed as a whole, at five times its size and more: it is what a listing costs at its peak."""
Told = Callable[[str, str, str], None]
"""Called after each request with its verb, the plural of its kind and the status code (or "unreachable")."""


class KubernetesClient:
    """A cluster by its API. Use it as an async context manager."""

    def __init__(self, configuration: Any, told: Told) -> None:
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.retries = 0
        self._configuration = configuration
        self._rest: Any = RESTClientObject(configuration)
        self._told = told

    @classmethod
    async def connect(cls, told: Told) -> KubernetesClient:
        """By the service account of the pod, or else by the kubeconfig. ClusterUnavailable if there is neither."""
        configuration: Any = Configuration()
        try:
            _loading.load_incluster_config(client_configuration=configuration)
        except client_config.ConfigException:
            try:
                await _loading.load_kube_config(client_configuration=configuration, persist_config=False)
            except client_config.ConfigException as error:
                raise ClusterUnavailable(
                    f"no way to a cluster: not in a pod with a service account, and no kubeconfig ({error})"
                ) from error
        return cls(configuration, told)

    async def close(self) -> None:
        """Ends its connections."""
        await self._rest.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """One object."""
        return await self._request("get", kind, kind.path(namespace, name))

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        keep: Callable[[Json], Json] | None = None,
    ) -> list[Json]:
        """All objects that the selector selects, in pages; of each what ``keep`` makes of it."""
        found: list[Json] = []
        following = ""
        while True:
            query = {"limit": str(_PAGE), "labelSelector": selector, "continue": following}
            page = await self._request("list", kind, kind.path(namespace), query=query)
            items = parts(page, "items")
            found += items if keep is None else map(keep, items)
            following = str(part(page, "metadata").get("continue") or "")
            if not following:
                return found

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        """Server-side apply; fields of other managers are taken over with ``force``, those not in ``body`` are left."""
        kind, metadata = BY_KIND[body["kind"]], body["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"], subresource)
        query = {"fieldManager": manager, "force": "true" if force else ""}
        return await self._request("apply", kind, path, body=body, query=query, content="apply-patch+yaml")

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        """A merge patch."""
        query = {"fieldManager": "claimq-operator"}
        path = kind.path(namespace, name)
        return await self._request("patch", kind, path, body=changes, query=query, content="merge-patch+json")

    async def create(self, kind: Kind, body: Json) -> Json:
        """A new object."""
        return await self._request("create", kind, kind.path(body["metadata"]["namespace"]), body=body)

    async def _request(
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "json",
    ) -> Json:
        words = urlencode({key: value for key, value in (query or {}).items() if value})
        url = f"{self._configuration.host}{path}{f'?{words}' if words else ''}"
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
                f"the API server gives no answer ({type(error).__name__}: {error})"
            ) from error
        finally:
            self._told(verb, kind.plural, code)
        if reply.status >= 400:
            raise _error(int(reply.status), raw, f"{verb} of {path}")
        return cast("Json", json.loads(raw))

    async def _headers(self, content: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": f"application/{content}"}
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = str(token)
        return headers


def _error(status: int, raw: bytes, doing: str) -> Exception:
    try:
        message = str(json.loads(raw).get("message") or "")
    except (ValueError, AttributeError):
        message = raw[:200].decode("utf-8", "replace")
    text = f"{doing}: {message or f'status {status}'}"
    if status == 404:
        return NotThere(text)
    if status == 409:
        return Conflicting(text)
    if status in (401, 429) or status >= 500:
        return ClusterUnavailable(text)
    return Refused(text, forbidden=status == 403)
