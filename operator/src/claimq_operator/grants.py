"""Features of worker pods that the operator's settings can grant. Pure."""

from __future__ import annotations

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
    "Priority": "`priorityClassName`, `priority`, `preemptionPolicy`",
    "Placement": "`nodeName`, `schedulerName`, `runtimeClassName`, `overhead`, and `tolerations` whose key does not "
    "begin with `node.kubernetes.io/`",
    "OtherFields": "fields of pods, containers and security contexts that this release does not have, such as those "
    "of later releases of Kubernetes",
}
"""What worker pods may use only if CLAIMQ_WORKERS_MAY has the word: word to fields of `spec.worker.template`."""
