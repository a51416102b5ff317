"""What conditions and Events of a ReliableQueue mean, and what to do about each of their reasons. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Meaning:
    """``fixes``: reasons, divided by commas, to what to do about them, in Markdown."""

    about: str
    fixes: dict[str, str] = field(default_factory=dict[str, str])


MEANINGS = {
    "Ready": Meaning(
        "A summary of the other conditions. It is True with `Working`, `WorkersStarting`, `SpecSuspend`, "
        "`PausedByHand`, `ClosedByApp`, `RolloutBlocked`, `NoProgress`, `MaxWaiting` and `OperatorConflict`, and "
        "otherwise has the reason of the condition that is the cause. `kubectl get rq` shows the reason."
    ),
    "RedisReachable": Meaning(
        "Whether the server can be used. True: `Reachable`, `ReachableWithWarnings`, `Full`. Unknown: "
        "`NotTriedYet`, when the operator has just started.",
        {
            "ReachableWithWarnings": "change the setting in the message; checked again every minute",
            "Full": "the server is at its `maxmemory`: nothing can be enqueued; claims and results go on. Let "
            "workers empty main, remove failed items (`claimq failed remove`), give it memory, or set "
            "`failedItems.remove`",
            "Unreachable": "it does not respond, or refuses TLS or the user and password; `claimq doctor NAME -n "
            "NAMESPACE`, or `server_unusable` in the operator's log, has the cause. The number of workers is "
            "kept; sidecars keep their items. The operator retries after 1 to 15 s",
            "ScriptsRefused": "use a server of docs/servers.md; after a failover or an upgrade too",
            "Misused": "grant the permission (docs/acl.md), or correct the key that the message names",
            "ReadTooLarge": "correct the address: it returned more in one read than a queue has, or took too "
            "long; or other large reads took all turns",
            "SecretMissing, SecretKeyMissing, SecretKeyInvalid": "create or correct the Secret (`kubectl create "
            "secret generic ... --from-literal`), or `key` in `spec.redis`; found within 15 s",
            "SecretTooLarge, CertificateTooLarge": "keep only what is needed, and share Secrets between queues: "
            "an entry has at most 16 KiB, the Secrets of a namespace's queues 2 MiB; certificates: "
            "docs/operator.md#settings",
            "SecretForbidden": "add the namespace to `operator.namespaces` in the chart. Check: `kubectl auth "
            "can-i get secrets --as=system:serviceaccount:claimq:claimq -n NAMESPACE`",
            "SecretUnreadable": "wait: the API server did not respond",
            "AddressInvalid": "correct `spec.redis.url` or the Secret: docs/operations.md#connecting has the "
            "forms, docs/operator.md#host-names the host names",
            "CertificateNotStored": "give the operator a larger emptyDir at `TMPDIR`",
            "QueueNameForbidden": "create the object without `spec.queueName`, or allow it with "
            "`operator.queueNames` in the chart",
            "OwnedByAnother": "use another `queueName`, or take it over (docs/operator.md#who-owns-a-queue)",
            "PasswordHostForbidden": "list the host in the key `hosts` of the Secret "
            "(docs/operator.md#where-passwords-may-go)",
            "ClusterUnknown": "set `operator.clusterId` in the chart",
        },
    ),
    "WorkersAvailable": Meaning(
        "Whether the desired workers are ready. True: `AllReady`, `NoneWanted`, `SomeReady` (the message has the "
        "cause for the others), and `RolloutBlocked` while workers of the previous template go on. `Starting` "
        "needs no action; if it persists, its message names the command to run. Other reasons come from the "
        "kubelet, the scheduler or the Deployment, and the message names the pod.",
        {
            "ErrImagePull, ImagePullBackOff, InvalidImageName": "correct the name and tag of the app's image or "
            "the sidecar's (`sidecar.image` in the chart), or add `worker.template.spec.imagePullSecrets`. Images "
            "that were loaded onto nodes by hand need a tag other than `latest`",
            "CrashLoopBackOff": "read the log: `kubectl logs POD --container=worker --previous`, or "
            "`claimq-sidecar`. A worker that ends by itself with exit code 0 is restarted with growing delays: "
            "let it go on",
            "CreateContainerConfigError": "create the Secret or ConfigMap of `worker.env`; or the image runs as "
            "root: set a numeric `USER`, or `runAsUser` in the template",
            "CreateContainerError, RunContainerError": "correct `worker.command`",
            "Unschedulable, SchedulerError, SchedulingGated": "the pod fits no node: change requests, taints, "
            "volumes, or add nodes",
            "FailedCreate, PodsRefused": "a quota, a LimitRange, Pod Security or a webhook rejects the pods; "
            "quotas apply to the sidecar too (`sidecar.resources`). When that is mended, Kubernetes may take up to "
            "16 minutes to create the pod: `kubectl annotate replicaset --all again=1` makes it try at once",
            "AppNotReady": "let the app do what the message misses: listen on the port or socket, or respond to "
            "`probePath` with 2xx",
            "ProgressDeadlineExceeded, NotReady": "`kubectl describe pod POD`: your readiness probe, or the "
            "sidecar's `/readyz`",
            "RolloutBlocked": "correct or revert the change; if old and new workers do not fit beside each "
            "other, `worker.maxUnavailable: 1`",
            "DeploymentPaused": "run the command in the message",
        },
    ),
    "ScalingActive": Meaning(
        "Whether the operator sets the number of workers from the queue.",
        {
            "Auto": "nothing: the number follows the queue; `status.scaling` has the decision",
            "Manual": "the number is `scaling.replicas`: `kubectl scale rq NAME --replicas=3`, or the mode Auto",
            "External": "check that autoscaler (docs/operator.md#another-autoscaler)",
            "Contested": "another client, which the message names, sets the replicas too: delete that "
            "autoscaler, or let it decide with `scaling.mode: External`",
            "Suspended": '`kubectl patch rq NAME --type=merge --patch \'{"spec":{"suspend":false}}\'`',
            "Paused": "`kubectl annotate rq NAME claimq.dev/pause-reconcile-`",
            "Unknown, SpecInvalid": "see RedisReachable, or Stalled; the number is kept",
        },
    ),
    "ScalingLimited": Meaning(
        "True means that items wait longer than `targetAge`, whatever the operator decides, until fewer workers "
        "are wanted. Otherwise `NotLimited`, `NoProgress` (see Progressing), or `Unknown`.",
        {
            "MaxReplicas": "raise `scaling.maxReplicas` (the message has the number), or accept a longer "
            "`scaling.targetAge`",
            "LongItems": "the same, or make items shorter: one takes longer than `targetAge`",
            "SlowStart": "keep workers with `scaling.minReplicas`, or make them start faster (image size, init "
            "containers, probes)",
        },
    ),
    "Stalled": Meaning(
        "True means that the queue makes no progress until you act. Everything else of a pass is done all the "
        "same. Otherwise `NotStalled`. A reason of RedisReachable is explained there.",
        {
            "SpecInvalid": "correct the fields in the message; upgrade the CRD. A spec has at most 64 KiB and "
            "5,000 values",
            "Forbidden": "give the operator the permission in the message: `helm upgrade` with `rbac.create`, or "
            "your own roles",
            "ChildInvalid": "correct the field in the message, usually below `spec.worker.template`",
            "ApiRequestsFail": "the API server has not accepted a request for 30 s, usually because of an "
            "admission webhook that does not answer (`kubectl get "
            "validatingwebhookconfigurations,mutatingwebhookconfigurations`)",
            "DeniedByPolicy": "satisfy the policy, webhook or quota in the message: labels and annotations of "
            "Deployments belong in `spec.worker.deployment`, those of pods in `spec.worker.template.metadata`; "
            "`spec.worker.disruptionBudget: false` creates no budget",
            "TemplateForbidden": "remove the fields, or allow them with `operator.workersMay` in the chart "
            "(docs/operator.md#worker-pods)",
            "ChildNotOurs": "delete or rename the object in the message, or give the queue another name",
        },
    ),
    "Progressing": Meaning(
        "False while the server cannot be used, or while items wait for workers that cannot start or for a rollout "
        "that is stuck, with the reason of that condition. `NoProgress`: items wait, workers are ready, and nothing "
        "was claimed for a minute, or for the longest that an item took lately (ten minutes before the first item has "
        "ended). True with `ItemMayHang` while an item takes three times as long as any other lately, and at "
        "least ten minutes, and no `processingTimeout` is set.",
        {
            "NoProgress": "replace the worker that the message names: `claimq -n NAMESPACE drain NAME WORKER`; if the "
            "next one stops at the same item, set `processingTimeout`",
            "ItemMayHang": "if its worker hangs, replace it as for `NoProgress`, and set `processingTimeout`",
        },
    ),
    "Suspended": Meaning(
        "True: `SpecSuspend` (`spec.suspend`), `PausedByHand` (`claimq pause`), or `ClosedByApp` (`later` of an "
        "app); end the last two with `claimq -n NAMESPACE resume NAME`. False: `NotSuspended`. `Unknown`: see "
        "RedisReachable."
    ),
    "PauseForgotten": Meaning(
        "True (`PausedByHand`) if a pause without an end is a day old; otherwise there is no such condition. Resume "
        "the queue, or pause it with an end: `claimq -n NAMESPACE pause NAME --for 8h`."
    ),
    "Full": Meaning(
        "True (`MaxWaiting`) if at least 90 % of the items or bytes that `maxWaiting` allows wait, until less than "
        "80 % does; otherwise there is no such condition. Producers get `QueueFull`: add workers, slow the producers, "
        "or raise the bound."
    ),
    "NoisyNeighbour": Meaning(
        "True (`ClientTakesSlots`) while a client has over a tenth of the slots and of the time, and others that have "
        "less than half of that wait for over a second; for a minute at least. Otherwise there is no such condition. "
        "The message names up to five clients, what they delay and the commands that help."
    ),
    "OperatorConflict": Meaning(
        "`OthersStandBy`: another release of the operator serves the namespace too; it stands by. The message "
        "names it and the command that hands the namespace over "
        "(docs/operator.md#two-releases-for-one-namespace). To let only one serve the namespace, set "
        "`operator.namespaces` in the chart."
    ),
}
"""By the type of the condition."""
EVENTS = {
    "ScaledUp, ScaledDown, ItemsRemoved, ItemsKept": "nothing",
    "ScalingLimited, ReplicasContested, WorkersUnavailable, NoProgress, ItemMayHang": "see ScalingLimited, "
    "ScalingActive, WorkersAvailable, Progressing",
    "RedisUnreachable, RedisReachable": "docs/troubleshooting.md#after-an-outage",
    "ClaimsGivenBack": "containers terminated while they held items. For `OOMKilled` raise the memory in "
    "`worker.resources`; for exit codes read the app's log",
    "ItemsFailed": "docs/troubleshooting.md#items-are-in-failed",
    "DeletionWaits, ItemsLeftBehind": "docs/troubleshooting.md#a-queue-does-not-go-away",
}
"""By the reasons, divided by commas."""


def fix_of(kind: str, reason: str) -> str:
    """What to do about a reason of a condition; empty if only its message can say it."""
    meanings = (MEANINGS[kind], MEANINGS["RedisReachable"]) if kind in MEANINGS else ()
    fixes = (pair for meaning in meanings for pair in meaning.fixes.items())
    return next((fix for reasons, fix in fixes if reason in reasons.split(", ")), "")
