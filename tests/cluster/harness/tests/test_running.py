"""What runs on the cluster that the harness brings up: pods, sidecars, logs, names, services, images, helm."""

import http.client
from pathlib import Path

import pytest

from clusterkit import ApiError, Cluster, CommandFailed
from clusterkit.commands import eventually
from clusterkit.manifests import container, pod, service

pytestmark = pytest.mark.cluster

SIDECAR = """
import signal
open("/shared/note", "w").write("from the sidecar")
print("serving", flush=True)
signal.sigwait([signal.SIGTERM])
"""
CHART = "apiVersion: v2\nname: sample\nversion: 0.1.0\n"
TEMPLATE = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-helm}\ndata: {release: {{ .Release.Name }}}\n"
)


def python(name: str, image: str, code: str, **more: object) -> dict[str, object]:
    return container(name, image, command=["python3", "-c", code], **more)


def answering(name: str, image: str) -> dict[str, object]:
    """The sample's server, ready once it answers."""
    return container(name, image, readinessProbe={"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1})


def wait_for_service(cluster: Cluster, namespace: str, name: str) -> None:
    """Wait until a service has a pod behind it, and the nodes have heard of it."""
    wait(cluster, namespace, "condition=Ready", name)
    # Through the pod's own name, as its clients do: that is when every part has heard.
    ask = f"import urllib.request as r; r.urlopen('http://{name}.{namespace}.svc.cluster.local', timeout=5)"
    inside = ["kubectl", "exec", f"--namespace={namespace}", name, "--", "python3", "-c", ask]
    eventually(
        f"the service {name} answers", lambda: cluster.run(*inside, check=False).returncode == 0, timeout=120
    )


def wait(cluster: Cluster, namespace: str, what: str, name: str) -> None:
    words = ("wait", f"--namespace={namespace}", f"--for={what}", f"pod/{name}", "--timeout=150s")
    cluster.kubectl(*words, timeout=160)


def test_a_restricted_pod_with_a_native_sidecar_runs_and_its_logs_can_be_read(
    kubernetes: Cluster, namespace: str, sample_image: str
) -> None:
    shared = [{"name": "shared", "mountPath": "/shared"}]
    sidecar = python(
        "sidecar",
        sample_image,
        SIDECAR,
        restartPolicy="Always",
        volumeMounts=shared,
        startupProbe={"exec": {"command": ["test", "-f", "/shared/note"]}, "periodSeconds": 1},
        resources={"limits": {"memory": "64Mi", "cpu": "200m"}},
    )
    app = python(
        "app", sample_image, "print('app read: ' + open('/shared/note').read())", volumeMounts=shared
    )
    volumes = [{"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    kubernetes.apply(
        pod("both", app, initContainers=[sidecar], volumes=volumes, restartPolicy="Never"),
        namespace=namespace,
    )
    wait(kubernetes, namespace, "jsonpath={.status.phase}=Succeeded", "both")
    assert (
        kubernetes.kubectl("logs", f"--namespace={namespace}", "both", "-c", "app")
        == "app read: from the sidecar\n"
    )
    assert kubernetes.kubectl("logs", f"--namespace={namespace}", "both", "-c", "sidecar") == "serving\n"


def test_a_pod_that_may_become_root_is_refused_with_the_reason(
    kubernetes: Cluster, namespace: str, sample_image: str
) -> None:
    loose = pod("loose", {"name": "app", "image": sample_image})
    with pytest.raises(CommandFailed, match="allowPrivilegeEscalation != false"):
        kubernetes.apply(loose, namespace=namespace)


@pytest.mark.smoke
def test_service_names_resolve_in_a_pod_and_other_names_do_not_exist(
    kubernetes: Cluster, namespace: str, sample_image: str
) -> None:
    kubernetes.apply(service("answer"), pod("answer", answering("answer", sample_image)), namespace=namespace)
    wait_for_service(kubernetes, namespace, "answer")
    url = f"http://answer.{namespace}.svc.cluster.local"
    ask = f"import urllib.request as r; print(r.urlopen('{url}', timeout=5).read().decode())"
    inside = ["exec", f"--namespace={namespace}", "answer", "--", "python3", "-c"]
    assert kubernetes.kubectl(*inside, ask).strip() == "sample answer"
    assert kubernetes.kubectl(*inside, ask.replace(".svc.cluster.local", "")).strip() == "sample answer"
    with pytest.raises(CommandFailed, match="Name or service not known"):
        kubernetes.kubectl(*inside, "import socket; socket.getaddrinfo('nowhere.example', 80)")


def test_a_pod_reaches_the_api_server_by_its_service_with_its_own_token(
    kubernetes: Cluster, namespace: str, sample_image: str
) -> None:
    ask = """
import json, ssl, time, urllib.error, urllib.request
folder = '/var/run/secrets/kubernetes.io/serviceaccount/'
request = urllib.request.Request('https://kubernetes.default.svc/api/v1/nodes')
request.add_header('Authorization', 'Bearer ' + open(folder + 'token').read())
trusted = ssl.create_default_context(cafile=folder + 'ca.crt')
for _ in range(100):
    try:
        urllib.request.urlopen(request, context=trusted, timeout=5)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)['message'])
        break
    except OSError:  # its node may not have heard yet of what has moved
        time.sleep(0.5)
"""
    kubernetes.apply(
        pod("asker", python("app", sample_image, ask), restartPolicy="Never"), namespace=namespace
    )
    wait(kubernetes, namespace, "jsonpath={.status.phase}=Succeeded", "asker")
    said = kubernetes.kubectl("logs", f"--namespace={namespace}", "asker")
    assert said.startswith(f'403 nodes is forbidden: User "system:serviceaccount:{namespace}:default"')


def test_a_service_is_reached_from_the_test_by_a_forwarded_port(
    kubernetes: Cluster, namespace: str, sample_image: str
) -> None:
    kubernetes.apply(service("answer"), pod("answer", answering("answer", sample_image)), namespace=namespace)
    wait_for_service(kubernetes, namespace, "answer")
    with kubernetes.forward(namespace, "answer", 80) as port:

        def answer() -> bytes:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("GET", "/")
                return connection.getresponse().read()
            finally:
                connection.close()

        def is_there() -> bool:
            try:
                return bool(answer())
            except (OSError, http.client.HTTPException):
                return False

        # The nodes have heard of the service, and where the test stands is no node.
        eventually("the forwarded port leads there", is_there, timeout=60)
        for _ in range(3):
            assert answer() == b"sample answer\n"
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()


def test_the_api_answers_requests_and_says_why_not(kubernetes: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    kubernetes.api("POST", path, {"metadata": {"name": "notes"}, "data": {"one": "1"}})
    kubernetes.api("PATCH", f"{path}/notes", {"data": {"two": "2"}})
    found = kubernetes.api("GET", f"{path}/notes")
    assert isinstance(found, dict)
    assert found["data"] == {"one": "1", "two": "2"}
    with pytest.raises(ApiError, match=r"nothing.* not found") as caught:
        kubernetes.api("GET", f"{path}/nothing")
    assert caught.value.status == 404


def test_another_target_of_the_dockerfile_is_another_image(
    kubernetes: Cluster, namespace: str, sample_image: str
) -> None:
    dockerfile = Path(__file__).with_name("sample") / "Dockerfile"
    other = kubernetes.load_image(
        kubernetes.build_image(dockerfile, "claimq-harness-other:1", target="other")
    )
    kubernetes.apply(service("other"), pod("other", answering("other", other)), namespace=namespace)
    wait(kubernetes, namespace, "condition=Ready", "other")
    user = kubernetes.kubectl("exec", f"--namespace={namespace}", "other", "--", "id", "-u")
    assert user.strip() == "10001"  # what the Dockerfile's USER says, though both stages above it are root's
    environment = kubernetes.kubectl("exec", f"--namespace={namespace}", "other", "--", "env")
    assert "ANSWER=other" in environment.splitlines()


def test_helm_installs_and_uninstalls_a_chart(kubernetes: Cluster, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(CHART)
    (tmp_path / "templates" / "map.yaml").write_text(TEMPLATE)
    where = f"--namespace={namespace}"
    kubernetes.helm("install", "first", str(tmp_path), where)
    query = ["get", "configmap", "from-helm", where, "-o", "jsonpath={.data.release}"]
    assert kubernetes.kubectl(*query) == "first"
    kubernetes.helm("uninstall", "first", where)
    assert kubernetes.kubectl("get", "configmap", "from-helm", where, "--ignore-not-found") == ""
