"""Annotations with which a service mesh lets plain requests through to the sidecar's port. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from claimq_control.manifest import Mesh

_PORTS = {
    Mesh.ISTIO: "traffic.sidecar.istio.io/excludeInboundPorts",
    Mesh.LINKERD: "config.linkerd.io/skip-inbound-ports",
}
"""The annotation with the ports that the mesh's proxy does not intercept, separated by commas."""
_OTHERS = {Mesh.ISTIO: {"sidecar.istio.io/rewriteAppHTTPProbers": "false"}}
"""Istio's agent would send the probes and hooks of the app's container itself. It ends before a drain does."""


def with_mesh(annotations: Mapping[str, str], mesh: Mesh, port: int) -> dict[str, str]:
    """The annotations of a pod with those of its mesh. Values that the pod has already stay; the port is added."""
    if mesh not in _PORTS:
        return dict(annotations)
    name = _PORTS[mesh]
    ports = [port_text.strip() for port_text in annotations.get(name, "").split(",") if port_text.strip()]
    added = [] if str(port) in ports or "*" in ports else [str(port)]
    return {**_OTHERS.get(mesh, {}), **annotations, name: ",".join([*ports, *added])}
