"""The web page of a cluster in the chart."""

import json

from testkit.chart import Chart, Json, of_kind, pods

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


def test_the_page_reads_a_prometheus_only_if_one_is_named(chart: Chart) -> None:
    def page(*values: str) -> tuple[set[str], dict[str, str], Json]:
        pod = page_pod(chart.objects("web.enabled=true", *values))
        (page,) = pod["containers"]
        options = {one for one in page["args"] if one.startswith("--prometheus")}
        mounts = {one["mountPath"]: one["name"] for one in page["volumeMounts"]}
        return options, mounts, {one["name"]: one.get("secret") for one in pod["volumes"]}

    url = "https://prometheus.monitoring:9090/path"
    options, mounts, _ = page()
    assert (options, len(mounts)) == (set(), 2)
    assert page(f'web.prometheus.url="{url}"')[:2] == ({f"--prometheus={url}"}, mounts)
    secrets = {"url": url, "tokenSecret": "reader", "caSecret": "authority"}
    options, mounts, volumes = page(f"web.prometheus={json.dumps(secrets)}")
    files = {
        "token": "/etc/claimq/prometheus-token/token",
        "ca": "/etc/claimq/prometheus-ca/ca.crt",
    }
    assert options == {
        f"--prometheus={url}",
        *(f"--prometheus-{one}-file={file}" for one, file in files.items()),
    }
    for file, name in zip(files.values(), ("reader", "authority"), strict=True):
        folder, _, key = file.rpartition("/")
        assert volumes[mounts[folder]] == {"secretName": name, "items": [{"key": key, "path": key}]}


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
