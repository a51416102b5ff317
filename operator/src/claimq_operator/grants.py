"""Features of worker pods that the operator's settings can grant. Pure."""

from __future__ import annotations

FIELDS = {
    "Priority": ("priorityClassName", "priority", "preemptionPolicy"),
    "Placement": ("nodeName", "schedulerName", "runtimeClassName", "overhead"),
}
"""By word of RESTRICTIONS: fields of a pod that need it whatever their value is."""
_NAMES = {word: "`, `".join(fields) for word, fields in FIELDS.items()}
RESTRICTIONS = {
    "HostNetwork": "`hostNetwork`",
    "HostPID": "`hostPID`",
    "HostIPC": "`hostIPC`",
    "HostPath": "volumes of type `hostPath`",
    "HostPorts": "`ports[].hostPort`",
    "ServiceAccount": "`serviceAccountName` or `serviceAccount` other than `default`",
    "Root": "`runAsUser: 0`, `runAsNonRoot: false`; the group 0 in `runAsGroup`, `fsGroup`, `supplementalGroups`",
    "Privileged": "`privileged`, `allowPrivilegeEscalation`, `windowsOptions.hostProcess`",
    "Capabilities": "`capabilities.add`, and a `capabilities.drop` without `ALL`",
    "Unconfined": "seccomp or AppArmor `Unconfined`, `procMount`, `seLinuxOptions`, `sysctls`",
    "ProbeHost": "`host` in probes and lifecycle hooks, to which the kubelet would connect",
    "Volumes": "volumes of types that Pod Security `restricted` does not allow, such as `nfs` or `image`",
    "Priority": f"`{_NAMES['Priority']}`",
    "Placement": f"`{_NAMES['Placement']}`, and `tolerations` whose key does not begin with `node.kubernetes.io/`",
    "OtherFields": "fields of pods, containers and security contexts that this release does not have, such as those "
    "of later releases of Kubernetes",
}
"""What worker pods may use only if CLAIMQ_WORKERS_MAY has the word: word to fields of `spec.worker.template`."""
