"""The web page of a cluster in the chart."""

from claimq_kubernetes.port import Json
from testkit.repository.chart import Chart, of_kind, pods

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
PROXY = 'web.proxy.containers=[{"name":"login","image":"example/login:1"}]'


def page_pod(objects: list[Json]) -> Json:
    """The spec of the pod with the page."""
    (found,) = [pod["spec"] for name, pod in pods(objects) if name == "Deployment/release-claimq-web"]
    return dict(found)


def test_there_is_no_page_unless_it_is_enabled(chart: Chart) -> None:
    assert not [one for one in chart.objects() if one["metadata"]["name"].endswith("-web")]


def test_only_the_page_gets_the_token_of_its_service_account(chart: Chart) -> None:
    pod = page_pod(chart.objects("web.enabled=true", PROXY))
    page, proxy = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert TOKEN in {one["mountPath"] for one in page["volumeMounts"]}
    assert proxy == {"name": "login", "image": "example/login:1"}


def test_headers_are_believed_only_with_a_proxy_and_groups_only_if_set(chart: Chart) -> None:
    def options(*values: str) -> set[str]:
        page, *_ = page_pod(chart.objects("web.enabled=true", *values))["containers"]
        return {one for one in page["args"] if one.startswith(("--trust", "--user", "--group"))}

    believed = {"--trust-proxy=127.0.0.1", "--user-header=X-Forwarded-User"}
    assert options() == set()
    assert options(PROXY) == believed
    assert options(PROXY, 'web.proxy.groupHeader="X-Groups"') == {*believed, "--group-header=X-Groups"}


def test_tokens_are_reviewed_only_without_a_proxy(chart: Chart) -> None:
    def resources(*values: str) -> set[str]:
        roles = of_kind(chart.objects("web.enabled=true", *values), "ClusterRole")
        rules = [
            rule
            for role in roles
            if role["metadata"]["name"].endswith("-web-reviews")
            for rule in role["rules"]
        ]
        return {resource for rule in rules for resource in rule["resources"]}

    assert resources() == {"tokenreviews", "subjectaccessreviews"}
    assert resources(PROXY) == {"subjectaccessreviews"}
