"""Features of worker pods that the operator's settings can grant. Pure."""

from __future__ import annotations

RESTRICTIONS = (
    "HostNetwork",
    "HostPID",
    "HostIPC",
    "HostPath",
    "HostPorts",
    "ServiceAccount",
    "Root",
    "Privileged",
    "Capabilities",
    "Unconfined",
    "ProbeHost",
    "Volumes",
    "Priority",
    "Placement",
    "OtherFields",
)
"""What worker pods may use only if the setting CLAIMQ_WORKERS_MAY contains the word."""
