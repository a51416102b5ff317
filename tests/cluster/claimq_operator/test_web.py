"""The web page of a cluster: who sees and changes what, on a real API server, with the rights that the chart has."""

from __future__ import annotations

import http.client
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testkit.kubernetes import rights
from testkit.kubernetes.operator_world import World
from testkit.programs.processes import Process
from testkit.repository.chart import Chart, of_kind
from testkit.servers.patient import open_blocking_queue
from testkit.waiting import PATIENCE, eventually_sync
from testkit.web.web_user import WebUser

PASSWORD = "S3CRET-canary"
RBAC = "rbac.authorization.k8s.io"
LOOK = {"reliablequeues": "get"}
READ = {**LOOK, "reliablequeues/items": "get"}
CHANGE = {**LOOK, "reliablequeues/items": "get,update"}
SUSPEND = {"reliablequeues": "get,patch"}
DRAIN = {**LOOK, "pods/eviction": "create"}


class Web:
    """The page of the namespace of a test, and its users."""

    def __init__(self, world: World, url: str, account: str, log: Path) -> None:
        self.world = world
        self.url = url
        self.account = account
        self.log = log

    def token(self, name: str, permissions: Mapping[str, str]) -> str:
        """A token of a new user with these permissions: resource to verbs."""
        return token_of(self.world, name, permissions)

    def user(self, name: str, permissions: Mapping[str, str]) -> WebUser:
        """A new user who has logged in."""
        user = WebUser(self.url)
        assert user.log_in(self.token(name, permissions)) == 303
        return user

    def path(self, name: str = "thumbs") -> str:
        return f"/queues/{self.world.namespace}.{name}"


def token_of(world: World, name: str, permissions: Mapping[str, str]) -> str:
    subject = {"namespace": world.namespace, "name": name}
    world.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": subject})
    for number, (resource, verbs) in enumerate(permissions.items()):
        metadata = {"name": f"{name}-{number}", "namespace": world.namespace}
        rule = {"apiGroups": ["claimq.dev", ""], "resources": [resource], "verbs": verbs.split(",")}
        role = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        world.api.create({**role, "kind": "Role", "rules": [rule]})
        bound = {"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]}
        subjects = [{"kind": "ServiceAccount", **subject}]
        world.api.create({**role, "kind": "RoleBinding", "roleRef": bound, "subjects": subjects})
        for verb in verbs.split(","):
            wait_until_allowed(world, name, verb, resource)
    return world.api.token(world.namespace, name)


def wait_until_allowed(world: World, account: str, verb: str, resource: str) -> None:
    """Until the API server's watches have brought it a service account's new permission. The page remembers a refusal
    for a while."""
    kind, _, subresource = resource.partition("/")
    group = "" if kind == "pods" else "claimq.dev"
    asked = {
        "namespace": world.namespace,
        "verb": verb,
        "group": group,
        "resource": kind,
        "subresource": subresource,
    }
    user = f"system:serviceaccount:{world.namespace}:{account}"
    head = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    body = {**head, "spec": {"user": user, "resourceAttributes": asked}}

    def is_allowed() -> bool:
        status, review = world.api.request("POST", f"/apis/{head['apiVersion']}/subjectaccessreviews", body)
        assert status == 201, review
        return bool(review["status"]["allowed"])

    eventually_sync(is_allowed, why=f"{account} may {verb} {resource}")


def roles(world: World, component: str = "web") -> list[dict[str, object]]:
    """The service account of the page, or of the endpoint for producers, and its rights, as the chart has them."""
    on = ("web.enabled=true", "web.actions=true", "producers.enabled=true")
    values = (*on, f"operator.namespaces={json.dumps([world.namespace])}")
    objects = Chart().objects(*values, release=world.namespace, namespace=world.namespace)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    return [
        one
        for kind in kinds
        for one in of_kind(objects, kind)
        if one["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]


StartWeb = Callable[..., Web]


@pytest.fixture
def start_web(world: World, tmp_path: Path) -> Iterator[StartWeb]:
    """Starts the page with these arguments, as the chart does, and waits until it serves."""
    started: list[Process] = []

    def start(*arguments: str, component: str = "web") -> Web:
        for one in roles(world, component):
            world.api.create(one)
        account = f"{world.namespace}-claimq-{component}"
        token = world.api.token(world.namespace, account)
        config = json.loads(world.api.kubeconfig().read_text())
        config["users"][0]["user"] = {"token": token}
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(config))
        log = tmp_path / "web.log"
        words = [
            "--listen=127.0.0.1:0",
            f"--only-namespace={world.namespace}",
            *arguments,
        ]
        env = {"KUBECONFIG": str(file), "XDG_RUNTIME_DIR": str(tmp_path)}
        started.append(Process([sys.executable, "-m", "claimq_web", *words], log=log, cwd=tmp_path, env=env))

        def address() -> str:
            assert started[-1].is_running, log.read_text()
            found = re.search(r"http://\S+/", log.read_text())
            return found[0] if found else ""

        url = eventually_sync(address, why="the page prints its address")
        return Web(world, url, f"system:serviceaccount:{world.namespace}:{account}", log)

    yield start
    for one in started:
        one.kill9()


@pytest.fixture
def thumbs(world: World) -> World:
    """A namespace with the queue `thumbs`, which has a password and a failed item."""
    world.redis.call("ACL", "SETUSER", "ann", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    metadata, secret = (
        {"name": "db", "namespace": world.namespace},
        {"password": PASSWORD, "hosts": "127.0.0.1"},
    )
    world.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret})
    redis = {"url": world.redis.tcp_url, "user": "ann", "passwordSecretRef": {"name": "db"}}
    world.queue("thumbs", redis=redis, busyExpiry="1h")  # nothing renews the claims here
    world.operator()
    eventually_sync(lambda: world.condition("RedisReachable").startswith("True"))
    with open_blocking_queue(world.redis.tcp_url, f"{world.namespace}.thumbs") as queue:
        queue.enqueue("broken.png", id="broken")
        queue.fail(queue.claim(1, wait=0), "no such file", permanent=True)
    return world


@pytest.fixture
def web(thumbs: World, start_web: StartWeb) -> Web:
    """The page of this namespace."""
    assert thumbs
    return start_web("--actions")


def test_a_user_sees_what_the_roles_allow(web: Web) -> None:
    path = web.path()
    stranger, looks, reads = web.user("stranger", {}), web.user("looks", LOOK), web.user("reads", READ)
    assert "There is no ReliableQueue that you may see." in stranger.get()[1]
    assert stranger.get(path)[0] == 404
    assert stranger.get(f"{path}/failed")[0] == 404
    assert f'href="{looks.base}{path}"' in looks.get()[1]
    status, page = looks.get(path)
    assert (status, "RedisReachable" in page) == (200, True)
    assert f"{path}/failed" not in page
    for part in ("failed", "waiting", "audit", "item?id=broken"):
        assert looks.get(f"{path}/{part}")[0] == 403
    assert "no such file" in reads.get(f"{path}/failed")[1]
    status, page = reads.get(f"{path}/item?id=broken")
    assert (status, "broken.png" in page, "Remove" in page) == (200, True, False)


def test_a_change_needs_its_permission_and_is_recorded(web: Web) -> None:
    path = web.path()
    for name, permissions, status in (("stranger", {}, 404), ("looks", LOOK, 403), ("reads", READ, 403)):
        assert web.user(name, permissions).act(path, action="pause")[0] == status
        assert web.user(f"{name}-again", permissions).act(f"{path}/failed", action="remove")[0] == status
    changes = web.user("changes", CHANGE)
    assert "is paused" in changes.act(path, action="pause")[1]
    assert changes.act(path, action="suspend")[0] == 403
    changes.act(f"{path}/item", id="broken", action="requeue")
    page = changes.get(f"{path}/audit")[1]
    by_the_user = page.partition("<tbody>")[2].count(f"system:serviceaccount:{web.world.namespace}:changes")
    assert by_the_user == 2
    page = changes.get(path)[1]
    assert "ChangedByHand" in page
    assert f"{web.world.namespace}:changes: requeue broken (1 item)" in page


def test_suspending_changes_the_object(web: Web) -> None:
    path, world = web.path(), web.world
    operates = web.user("operates", SUSPEND)
    assert "is suspended" in operates.act(path, action="suspend")[1]
    assert world.get("rq", "thumbs")["spec"]["suspend"] is True
    eventually_sync(lambda: "End suspension" in operates.get(path)[1])
    operates.act(path, action="end-suspension")
    assert world.get("rq", "thumbs")["spec"]["suspend"] is False


def worker_in(world: World, name: str, queue: str = "thumbs") -> str:
    """The name of a worker in a new pod of a queue; it has a claim on `thumbs`."""
    pod = world.pod(
        name, queue, phase="Pending"
    )  # an eviction asks no budget about it; no controller runs here
    worker = f"{name}.{pod['metadata']['uid']}.1795232291850"
    with open_blocking_queue(world.redis.tcp_url, f"{world.namespace}.thumbs", worker=worker) as thumbs:
        thumbs.enqueue("cat.png")
        assert len(thumbs.claim(1, wait=0)) == 1
    return worker


def test_a_worker_is_drained_by_an_eviction_of_its_pod(web: Web) -> None:
    world, path = web.world, web.path()
    worker, other = worker_in(world, "first"), worker_in(world, "other", "videos")
    gone = worker.replace("first.", "gone.")
    drains = web.user("drains", DRAIN)
    page = drains.get(path)[1]
    assert {worker, other} <= set(re.findall('name="worker" value="([^"]+)"', page))
    assert web.user("changes", CHANGE).act(path, action="drain", worker=worker)[0] == 403
    for wrong, why in (
        (other, "the pod other is not a worker of"),
        (gone, "the pod gone of this worker has ended"),
        ("../secrets/db", "does not run in a pod of Kubernetes"),
    ):
        assert f"not done: {why}" in drains.act(path, action="drain", worker=wrong)[1].replace(
            f"{wrong} ", ""
        )
    assert "deletionTimestamp" not in world.get("pod", "first")["metadata"]
    assert "is drained" in drains.act(path, action="drain", worker=worker)[1]
    assert "deletionTimestamp" in world.get("pod", "first")["metadata"]
    assert "deletionTimestamp" not in world.get("pod", "other")["metadata"]


def test_a_permission_that_is_taken_away_ends_within_seconds(web: Web) -> None:
    reads = web.user("reads", READ)
    assert reads.get(f"{web.path()}/failed")[0] == 200
    web.world.api.kubectl("delete", "rolebinding", "reads-1", "-n", web.world.namespace)
    eventually_sync(lambda: reads.get(f"{web.path()}/failed")[0] == 403)


def test_an_unknown_token_and_a_request_without_login_are_refused(web: Web) -> None:
    stranger = WebUser(web.url)
    assert stranger.log_in("not-a-token") == 403
    assert stranger.send("GET", web.path())[0] == 303
    assert stranger.act(web.path(), action="pause")[0] == 403
    assert stranger.get("/healthz") == (200, "ok\n")


def test_a_queue_that_the_operator_refuses_is_not_shown(web: Web) -> None:
    """A ReliableQueue with the name of another tenant's queue must not show it."""
    world = web.world
    with open_blocking_queue(world.redis.tcp_url, "tenant.orders") as queue:
        queue.enqueue("secret of a tenant", id="order")
    world.queue("thief", queueName="tenant.orders")
    eventually_sync(lambda: world.condition("RedisReachable", "thief") == "False QueueNameForbidden")
    reads = web.user("reads", READ)
    eventually_sync(lambda: f"{web.path('thief')}" in reads.get()[1])
    # The page may have read the object before the operator wrote its condition.
    eventually_sync(lambda: "QueueNameForbidden" in reads.get()[1])
    for part in ("", "/waiting", "/item?id=order"):
        status, page = reads.get(f"{web.path('thief')}{part}")
        assert (status, "secret of a tenant" in page) == (503, False)


def test_a_status_that_a_user_wrote_opens_nothing(thumbs: World, start_web: StartWeb) -> None:
    """Every user who may write `reliablequeues/status` can write that the operator has accepted the object."""
    with open_blocking_queue(thumbs.redis.tcp_url, "tenant.orders") as queue:
        queue.enqueue("secret of a tenant", id="order")
    for operator in thumbs.operators:
        operator.process.kill9()
    thumbs.queue("thief", queueName="tenant.orders")
    thumbs.queue(
        "twin", queueName=f"{thumbs.namespace}.thumbs", redis=thumbs.get("rq", "thumbs")["spec"]["redis"]
    )
    now = "2026-11-27T00:00:00Z"
    accepted = {"type": "RedisReachable", "status": "True", "observedGeneration": 1, "reason": "Reachable"}
    condition = {**accepted, "message": "", "lastTransitionTime": now}
    for name in ("thief", "twin"):
        thumbs.patch("rq", name, {"status": {"conditions": [condition]}}, "/status")
    web = start_web("--actions")
    reads = web.user("reads", CHANGE)
    for name, why in (("thief", "does not begin with"), ("twin", "belongs to the ReliableQueue")):
        for part in ("", "/waiting", "/failed"):
            status, page = reads.get(f"{web.path(name)}{part}")
            assert (status, why in page) == (503, True), page
        assert reads.act(web.path(name), action="flush")[0] != 200
    assert reads.get(f"{web.path()}/failed")[0] == 200


def test_an_event_with_nothing_but_its_object_is_shown(web: Web) -> None:
    """The API server accepts it from everyone who may create Events."""
    world = web.world
    uid = world.get("rq", "thumbs")["metadata"]["uid"]
    involved = {"kind": "ReliableQueue", "name": "thumbs", "namespace": world.namespace, "uid": uid}
    metadata = {"name": "bare", "namespace": world.namespace}
    world.api.create({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved})
    assert web.user("looks", LOOK).get(web.path())[0] == 200


def test_queues_come_and_go_with_their_objects(web: Web) -> None:
    world, looks = web.world, web.user("looks", LOOK)
    world.queue("videos")
    eventually_sync(lambda: web.path("videos") in looks.get()[1])
    world.api.kubectl("delete", "rq", "videos", "-n", world.namespace)
    eventually_sync(lambda: web.path("videos") not in looks.get()[1])


def test_no_secret_is_on_a_page_or_in_the_log(web: Web) -> None:
    token = web.token("reads", READ)
    reads = WebUser(web.url)
    assert reads.log_in(token) == 303
    pages = "".join(reads.get(path)[1] for path in ("/", web.path(), f"{web.path()}/failed"))
    for secret in (PASSWORD, token):
        assert secret not in pages + web.log.read_text()


def test_behind_a_proxy_the_headers_name_the_user(thumbs: World, start_web: StartWeb) -> None:
    web = start_web("--actions", "--trust-proxy=127.0.0.1", "--user-prefix=idp:")
    words = ("--verb=get", "--resource=reliablequeues.claimq.dev", "-n", thumbs.namespace)
    thumbs.api.kubectl("create", "role", "looks", *words)
    bound = ("--role=looks", "--user=idp:ann", "-n", thumbs.namespace)
    thumbs.api.kubectl("create", "rolebinding", "looks", *bound)
    ann = WebUser(web.url, {"X-Forwarded-User": "ann"})
    # The API server authorizes by what its watches have brought so far.
    eventually_sync(lambda: ann.get(web.path())[0] == 200)
    assert ann.get(f"{web.path()}/failed")[0] == 403
    assert WebUser(web.url, {"X-Forwarded-User": "bob"}).get(web.path())[0] == 404
    assert WebUser(web.url).get(web.path())[0] == 403
    assert WebUser(web.url).get("/login")[0] == 403


def test_headers_of_another_peer_than_the_proxy_are_not_believed(thumbs: World, start_web: StartWeb) -> None:
    assert thumbs
    web = start_web("--trust-proxy=192.0.2.1")
    assert WebUser(web.url, {"X-Forwarded-User": "ann"}).get(web.path())[0] == 403


def wait_until_used(web: Web, component: str = "web") -> None:
    """Until it has used each of its rights, which it does beside its answers too, and was refused nothing."""
    given = rights.granted(one for one in roles(web.world, component) if str(one["kind"]).endswith("Role"))

    def are_used() -> bool:
        assert rights.asked(web.world.api.audit_log(), web.account) == (given, set())
        return True

    eventually_sync(are_used, why="the page asks for what it may and for nothing else")


def test_the_page_asks_for_what_the_chart_lets_it_and_for_nothing_else(web: Web) -> None:
    everything = web.user("everything", {**CHANGE, **SUSPEND, **DRAIN, "reliablequeues": "get,patch"})
    everything.act(web.path(), action="drain", worker=worker_in(web.world, "first"))
    everything.act(web.path(), action="suspend")
    everything.get(web.path())
    wait_until_used(web)


def test_a_producer_needs_one_permission_and_its_endpoint_the_rights_of_the_chart(
    thumbs: World, start_web: StartWeb
) -> None:
    web = start_web("--producers", component="producers")
    new = json.dumps({"items": [{"id": "new", "payload": "new.png"}]}).encode()

    def add(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(urlsplit(web.url).netloc, timeout=PATIENCE)
        with closing(connection):
            connection.request("POST", f"/api/v1{web.path()}/enqueue", new, headers)
            return connection.getresponse().status

    statuses = [
        add("x"),
        add(web.token("reads", READ)),
        add(web.token("adds", {"reliablequeues/items": "create"})),
    ]
    assert statuses == [401, 403, 200]
    with open_blocking_queue(thumbs.redis.tcp_url, f"{thumbs.namespace}.thumbs") as queue:
        assert [item.id for item in queue.peek(9)] == ["new"]
    wait_until_used(web, "producers")
