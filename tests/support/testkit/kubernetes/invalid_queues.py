"""Mistakes in a ReliableQueue that no API server can refuse: what the condition has to say, and what mends it."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from claimq_kubernetes.port import Json
from testkit.on_cluster.queue_on_cluster import APP, QueueOnCluster

TEAM, READER = "mistaken-team", "mistaken-reader"
NOWHERE = "registry.example/missing:1"

Heal = Callable[[QueueOnCluster], object]


@dataclass(frozen=True)
class Mistake:
    """`spec` is laid over a good one. `says`: what the condition's message has to have, among it the field."""

    spec: Json
    condition: str
    verdicts: tuple[str, ...]
    says: tuple[str, ...]
    heal: Heal


def secret_of(name: str, **texts: str) -> Json:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def with_secret(**texts: str) -> Heal:
    """Puts this into the Secret that has the queue's name; `{}` in a text is the server's host and port."""

    def heal(queue: QueueOnCluster) -> None:
        host = queue.release.redis_url.removeprefix("redis://").removesuffix("/0")
        filled = {key: text.format(host) for key, text in texts.items()}
        queue.cluster.apply(secret_of(queue.name, **filled), namespace=queue.namespace)

    return heal


def with_spec(**spec: Any) -> Heal:
    return lambda queue: queue.patch(spec)


def with_worker(**worker: Any) -> Heal:
    return lambda queue: queue.patch({"worker": worker})


def by_secret(name: str, key: str = "url") -> Json:
    return {"redis": {"url": None, "secretRef": {"name": name, "key": key}}}


def template(**spec: Any) -> Json:
    return {"worker": {"template": {"spec": spec}}}


def app(**container: Any) -> Json:
    return template(containers=[{"name": APP, **container}])


def right_to_all(queue: QueueOnCluster) -> None:
    with redis.Redis.from_url(queue.url) as server:
        server.execute_command("ACL", "SETUSER", READER, "~*", "+@all")


def without_the_key(queue: QueueOnCluster) -> None:
    with redis.Redis.from_url(queue.url) as server:
        server.delete(f"cq:{{{queue.on_server}}}:leases")


NO_TEMPLATE = with_worker(template=None)
STALLED, WORKERS = "Stalled", "WorkersAvailable"
CRASHES = ("False CrashLoopBackOff", "False RunContainerError")
PULLS = ("False ErrImagePull", "False ImagePullBackOff")

MISTAKES: dict[str, Mistake] = {
    # First, because its ReplicaSet is retried less often the longer it has failed.
    "over-quota": Mistake(
        {},
        WORKERS,
        ("False FailedCreate",),
        ("quota", "requests.memory", "spec.worker.resources"),
        with_spec(
            worker={"resources": {"requests": {"memory": "64Mi"}}},
            sidecar={"resources": {"requests": {"memory": "64Mi"}}},
        ),
    ),
    "secret-missing": Mistake(
        by_secret("secret-missing"),
        STALLED,
        ("True SecretMissing",),
        ('no Secret "secret-missing"', "spec.redis", "create it"),
        with_secret(url="redis://{}/0"),
    ),
    "key-missing": Mistake(
        by_secret("has-another-key", "url"),
        STALLED,
        ("True SecretKeyMissing",),
        ('"has-another-key" has no key "url"', "spec.redis"),
        with_spec(redis={"secretRef": {"name": "has-another-key", "key": "address"}}),
    ),
    "address-unreadable": Mistake(
        by_secret("address-unreadable"),
        STALLED,
        ("True AddressInvalid",),
        ("spec.redis.secretRef", '"address-unreadable"', "redis://"),
        with_secret(url="redis://{}/0"),
    ),
    "no-answer": Mistake(
        {"redis": {"url": "redis://missing.example.invalid:6379/0"}},
        "RedisReachable",
        ("False Unreachable",),
        ("no server answers there", "spec.redis.url", "correct", "claimq doctor no-answer -n mistakes"),
        lambda queue: queue.patch({"redis": {"url": queue.release.redis_url}}),
    ),
    "tls-where-there-is-none": Mistake(
        by_secret("tls-where-there-is-none"),
        "RedisReachable",
        ("False Unreachable",),
        ("spec.redis.secretRef", "used with TLS", "correct", "claimq doctor"),
        with_secret(url="redis://{}/0"),
    ),
    "wrong-password": Mistake(
        by_secret("wrong-password"),
        "RedisReachable",
        ("False Unreachable",),
        ("refuses TLS or the user and password", "spec.redis.secretRef", "correct", "claimq doctor"),
        with_secret(url=f"redis://{TEAM}:right@{{}}/0"),
    ),
    "no-rights-on-the-server": Mistake(
        by_secret("no-rights-on-the-server"),
        STALLED,
        ("True Misused",),
        ("spec.redis.secretRef", "docs/acl.md"),
        right_to_all,
    ),
    "key-of-another-type": Mistake(
        {},
        STALLED,
        ("True Misused",),
        (":leases is a string and should be a zset", "delete it"),
        without_the_key,
    ),
    "label-refused": Mistake(
        template(nodeSelector={"a b": "c"}),
        STALLED,
        ("True ChildInvalid",),
        ("nodeSelector", "correct spec.worker.template"),
        NO_TEMPLATE,
    ),
    "two-volumes-of-one-name": Mistake(
        template(volumes=[{"name": "a", "emptyDir": {}, "configMap": {"name": "b"}}]),
        STALLED,
        ("True ChildInvalid",),
        ("volumes", "correct spec.worker.template"),
        NO_TEMPLATE,
    ),
    "volume-of-another-type": Mistake(
        template(volumes=[{"name": "a", "nfs": {"server": "server.invalid", "path": "/"}}]),
        STALLED,
        ("True TemplateForbidden",),
        ("spec.worker.template.spec.volumes[0].nfs", "operator.workersMay", "Volumes"),
        NO_TEMPLATE,
    ),
    "network-of-the-node": Mistake(
        template(hostNetwork=True),
        STALLED,
        ("True TemplateForbidden",),
        ("spec.worker.template.spec.hostNetwork", "operator.workersMay"),
        NO_TEMPLATE,
    ),
    "another-service-account": Mistake(
        template(serviceAccountName="missing"),
        STALLED,
        ("True TemplateForbidden",),
        ("spec.worker.template.spec.serviceAccountName", "operator.workersMay"),
        NO_TEMPLATE,
    ),
    "image-missing": Mistake(
        {"worker": {"image": NOWHERE}},
        WORKERS,
        PULLS,
        (NOWHERE, "spec.worker.image", "imagePullSecrets"),
        lambda queue: queue.patch({"worker": {"image": queue.release.images.sidecar}}),
    ),
    "sidecars-image-missing": Mistake(
        {"sidecar": {"image": NOWHERE}},
        WORKERS,
        PULLS,
        (NOWHERE, "spec.sidecar.image"),
        with_spec(sidecar={"image": None}),
    ),
    "image-never-pulled": Mistake(
        {"worker": {"image": NOWHERE, **app(imagePullPolicy="Never")["worker"]}},
        WORKERS,
        ("False ErrImageNeverPull",),
        (NOWHERE, "spec.worker.image"),
        lambda queue: queue.patch({"worker": {"image": queue.release.images.sidecar}}),
    ),
    "ends-at-once": Mistake(
        {"worker": {"args": ["raise SystemExit(3)"]}},
        WORKERS,
        CRASHES,
        ("exit code 3", "kubectl logs", "spec.worker.command"),
        with_worker(args=["import time; time.sleep(3600)"]),
    ),
    "no-such-program": Mistake(
        {"worker": {"command": ["/no/such/program"]}},
        WORKERS,
        CRASHES,
        ("/no/such/program", "spec.worker.command"),
        with_worker(command=["python", "-c"]),
    ),
    "env-from-nowhere": Mistake(
        {"worker": {"envFrom": [{"secretRef": {"name": "env-from-nowhere"}}]}},
        WORKERS,
        ("False CreateContainerConfigError",),
        ('"env-from-nowhere" not found', "spec.worker.envFrom", "create"),
        with_secret(A="b"),
    ),
    "volume-from-nowhere": Mistake(
        template(
            volumes=[{"name": "a", "secret": {"secretName": "volume-from-nowhere"}}],
            containers=[{"name": APP, "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
        ),
        WORKERS,
        ("False Starting", "False ProgressDeadlineExceeded"),  # the latter after ten minutes
        ("kubectl describe pod", "a volume of spec.worker.template"),
        NO_TEMPLATE,
    ),
    "too-large-for-any-node": Mistake(
        {"worker": {"resources": {"requests": {"cpu": "1000"}}}},
        WORKERS,
        ("False Unschedulable",),
        ("Insufficient cpu", "spec.worker.resources.requests"),
        with_worker(resources=None),
    ),
    "no-such-node": Mistake(
        template(nodeSelector={"disk": "golden"}),
        WORKERS,
        ("False Unschedulable",),
        ("nodeSelector", "spec.worker.template.spec"),
        NO_TEMPLATE,
    ),
    "own-pre-stop": Mistake(
        app(lifecycle={"preStop": {"exec": {"command": ["true"]}}}),
        WORKERS,
        ("True AllReady",),
        ("its own preStop hook", "POST /v1/prestop", "remove it"),
        NO_TEMPLATE,
    ),
    "own-liveness-probe": Mistake(
        {"processingTimeout": "1h", **app(livenessProbe={"exec": {"command": ["true"]}})},
        WORKERS,
        ("True AllReady",),
        ("its own livenessProbe", "processingTimeout"),
        NO_TEMPLATE,
    ),
}
