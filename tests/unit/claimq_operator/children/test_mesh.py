"""Annotations for service meshes."""

import pytest

from claimq_control.manifest import Mesh
from claimq_operator.children.mesh import with_mesh

ISTIO_PORTS = "traffic.sidecar.istio.io/excludeInboundPorts"
ISTIO_PROBES = "sidecar.istio.io/rewriteAppHTTPProbers"
LINKERD_PORTS = "config.linkerd.io/skip-inbound-ports"


@pytest.mark.parametrize(
    ("mesh", "own", "expected"),
    [
        (Mesh.NONE, {"a": "b"}, {"a": "b"}),
        (Mesh.ISTIO, {}, {ISTIO_PORTS: "9465", ISTIO_PROBES: "false"}),
        (Mesh.ISTIO, {ISTIO_PORTS: "8080, 81"}, {ISTIO_PORTS: "8080,81,9465", ISTIO_PROBES: "false"}),
        (Mesh.ISTIO, {ISTIO_PORTS: "9465"}, {ISTIO_PORTS: "9465", ISTIO_PROBES: "false"}),
        (Mesh.ISTIO, {ISTIO_PORTS: "*"}, {ISTIO_PORTS: "*", ISTIO_PROBES: "false"}),
        (Mesh.ISTIO, {ISTIO_PROBES: "true"}, {ISTIO_PORTS: "9465", ISTIO_PROBES: "true"}),
        (Mesh.LINKERD, {"a": "b"}, {"a": "b", LINKERD_PORTS: "9465"}),
        (Mesh.LINKERD, {LINKERD_PORTS: "80-90"}, {LINKERD_PORTS: "80-90,9465"}),
    ],
)
def test_the_pod_gets_the_annotations_of_its_mesh(
    mesh: Mesh, own: dict[str, str], expected: dict[str, str]
) -> None:
    assert with_mesh(own, mesh, 9465) == expected
