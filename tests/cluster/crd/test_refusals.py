"""A real API server with the CRD refuses what the parser refuses, names the field and says what to do."""

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from claimq.errors import InvalidSpec
from claimq_control.manifest import parse_manifest
from testkit.kubernetes.api_server import ApiServer, Refused
from testkit.kubernetes.bad_manifests import MISTAKES, with_changes, with_mistake

PATH = "/apis/claimq.dev/v1alpha1/namespaces/media/reliablequeues?dryRun=All&fieldValidation=Strict"

# What the API server names where the parser names more: a rule on a list or map has no index, and a path has [key].
NAMES_INSTEAD = {
    "a request over its limit": "spec.worker.resources.requests",
    "memory in MB": "spec.sidecar.resources.limits[memory]",
    "a label too long": "spec.worker.template.metadata.labels[a]",
    "a label of claimq": "spec.worker.template.metadata.labels",
    "a variable twice": "spec.worker.env[2]",
    "two limits of one name": "spec.limits[1]",
    "an app that is not restarted": "spec.worker.template.spec.containers",
    "the image in the template": "spec.worker.template.spec.containers",
    "the sidecar's name": "spec.worker.template.spec.initContainers",
    "the socket's volume": "spec.worker.template.spec.volumes",
    "a namespace too long": "namespace",
    "a name that is a number": "ObjectMeta.name",
}
# What kubectl says by itself, since the API server is never asked.
BY_KUBECTL = {
    "no api version": "apiVersion not set",
    "another api version": 'no matches for kind "ReliableQueue" in version "claimq.dev/v1"',
    "another kind": 'no matches for kind "Deployment" in version "claimq.dev/v1alpha1"',
}
# What only the parser checks, so that the operator reports it: it would take a regular expression in the CRD.
BY_THE_PARSER = re.compile(r"has an address that is not HOST:PORT|has a database that is not a number")
# The API server's own messages that are as good as ours.
OWN_WORDS = [
    r"Required value",
    r"must be of type (string|integer|number|boolean|array|object): ",
    r"should be (greater|less) than or equal to -?\d",
    r"Unsupported value: .* supported values: ",
    r'unknown field "',
    r"may not be more than \d+ bytes",
    r"Duplicate value: ",
    r"must consist of lower case alphanumeric characters",
    r"does not match the namespace",
    r"cannot unmarshal number into .* of type string",
    r"name or generateName is required",
]
# Messages that leave the reader alone.
POOR = re.compile(
    r"should match '|type conversion error|must match the regular|evaluating rule|no such overload"
)
# What the API server adds to a message about a value of the wrong type; 1.37 also to a number with a fraction.
CONSEQUENCE = re.compile(
    "accessor error|must be an object for an array of list-type map|Checked value must be of type"
)
FIX = re.compile(r"\b(give|remove|keep|write|raise|lower|choose|shorten|correct|set)\b")


def refusal(server: ApiServer, document: dict[str, Any]) -> tuple[str, list[dict[str, str]]]:
    """The message and the causes; empty when it is accepted."""
    # kubectl makes a text of a number that JSON has no word for.
    sent = json.loads(json.dumps(document), parse_constant=str)
    status, answer = server.request("POST", PATH, sent)
    if status == 201:
        return "", []
    assert 400 <= status < 500, answer
    causes: list[dict[str, str]] = answer.get("details", {}).get("causes", [])
    # Where the structure is wrong, the API server adds that it has not looked at the rest.
    return answer["message"], [
        cause for cause in causes if "some validation rules were not checked" not in cause["message"]
    ]


def test_the_manifest_without_a_mistake_is_accepted(api_server: ApiServer) -> None:
    assert refusal(api_server, with_changes({})) == ("", [])


@pytest.mark.parametrize("mistake", BY_KUBECTL)
def test_what_is_no_reliable_queue_is_refused_by_kubectl(api_server: ApiServer, mistake: str) -> None:
    with pytest.raises(Refused, match=re.escape(BY_KUBECTL[mistake])):
        api_server.kubectl("create", "-f", "-", stdin=json.dumps(with_mistake(mistake)))


@pytest.mark.parametrize("mistake", [mistake for mistake in MISTAKES if mistake not in BY_KUBECTL])
def test_a_mistake_is_refused_with_its_field_and_what_to_do(api_server: ApiServer, mistake: str) -> None:
    entry = MISTAKES[mistake]
    document = with_mistake(mistake)
    message, causes = refusal(api_server, document)
    if BY_THE_PARSER.search(_fault(document)):
        assert not message
        return
    assert message, "it was accepted"
    assert str(NAMES_INSTEAD.get(mistake, entry["field"])) in message
    assert not POOR.search(message)
    assert FIX.search(message) or any(re.search(words, message) for words in OWN_WORDS)
    reported = [cause for cause in causes if not CONSEQUENCE.search(cause["message"])]
    assert len(reported) <= 1, "one mistake, reported once"


ADDRESSES = [
    "redis://h",
    "redis://h:6379/0",
    "redis://h:65535",
    "redis://h:65536",
    "redis://h:/1",
    "redis://:1",
    "redis://",
    "redis:///1",
    "redis://h//",
    "redis://h/1/",
    "redis://h/x",
    "redis://h/0?x=/y",
    "redis://user@h/2",
    "redis://user:@h",
    "redis://h?password=x",
    "redis://h,i:2,j/0",
    "redis://h,,i",
    "redis://[::1]:6379/0",
    "redis://[::1",
    "rediss://h:6380/00",
    "rediss://h/01",
    "unix:///run/s",
    "unix:///run/s?db=1",
    "unix://s",
    "unix://host/run/s",
    "unix://user@/run/s",
    "unix:////s",
    "unix:///",
    "redis+sentinel://h:1,i:2/m/0",
    "redis+sentinel://h/m/x",
    "redis+sentinel://h",
    "redis+sentinel://h//0",
    "rediss+sentinel://h/m",
    "redis+cluster://h:7000,i",
    "redis+cluster://h/1",
    "rediss+cluster://h/0",
    "REDIS://h",
    "http://h",
    "redis://h h",
    "h:6379",
    "",
]
COMPANIONS: list[dict[str, Any]] = [
    {},
    {"sentinel": {"masterName": "m"}},
    {"cluster": True},
    {"cluster": True, "sentinel": {"masterName": "m"}},
    {"tls": {}},
    {"user": "u"},
    {"secretRef": {"name": "s"}},
]
CONTAINERS: list[dict[str, Any]] = [
    {"name": "worker"},
    {"name": "worker", "volumeMounts": []},
    {"name": "worker", "env": []},
    {"name": "helper", "image": "x", "env": [{"name": "A", "value": "b"}]},
    {"name": "claimq-sidecar"},
]
SPECS: list[dict[str, Any]] = [
    *({"spec.requeueLimit": value} for value in (0, 1, -1, 1_000_000, 1_000_001, "1", 1.5)),
    *(
        {"spec.busyExpiry": value}
        for value in ("1s", "0.999s", "999ms", "1000ms", "24h", "24h1ms", "1h1h", "1m1h", "30", "", "s", "1.2345s")
    ),
    *({"spec.busyExpiry": "10s", "spec.processingTimeout": value} for value in ("9.999s", "10s", "10000ms")),
    *(
        {"spec.retryDelay": {"initial": first, "max": longest}}
        for first, longest in product(("0s", "1m", "301s"), ("0s", "60s", "5m"))
    ),
    *({"spec.retryDelay": {"initial": "301s"}} for _ in range(1)),
    *({"spec.claimWaitTimeout": value} for value in ("0s", "1h", "3601s", "-1s", 5)),
    *({"spec.idWindow": value} for value in ("0s", "999ms", "1s", "168h", "169h", "1d")),
    *({"spec.maxWaiting": {"items": value}} for value in (1, 0, "1", 1_000_000_000, 1_000_000_001)),
    *({"spec.maxWaiting": {"perClient": {"items": value}}} for value in (1, 0, -1)),
    *({"spec.maxWaiting": {"bytes": value}} for value in (1, 0, "64Mi", "1048576Gi", "1048577Gi", "1 GB")),
    *(
        {"spec.limits": [{"name": "a", **limit}]}
        for limit in (
            {}, {"rate": "1/s"}, {"busy": 1}, {"rate": "1/s", "busy": 1}, {"busy": 1, "burst": 2}, {"burst": 2},
            {"rate": "1/d", "burst": 1_000_000}, {"rate": "0/s"}, {"rate": "01/s"}, {"rate": "1000000/s"},
            {"rate": "1000001/s"}, {"rate": "1/w"}, {"rate": "1"}, {"rate": "1/s", "burst": 0}, {"busy": 0},
            {"busy": 100, "per": "key"}, {"busy": 101, "per": "key"}, {"busy": 101, "per": "client"},
            {"rate": "1/s", "per": "all"},
        )
    ),
    *({"spec.limits": [{"name": name, "busy": 1}]} for name in ("a", "a-1", "-a", "A", "a" * 64, "")),
    {"spec.limits": [{"name": "a", "busy": 1}, {"name": "a", "busy": 2}]},
    *({"spec.limits": [{"name": f"l{i}", "busy": 1} for i in range(count)]} for count in (8, 9)),
    *({"spec.maxPayload": value} for value in (1, 0, "1", "64Mi", "67108865", 67108864, "1M", "1m", "1.5Ki", "")),
    *(
        {"spec.failedItems": {"requeue": requeue, "remove": remove}}
        for requeue, remove in product(
            ({}, {"minAge": "1h"}, {"maxFailCount": 2}, {"minAge": "1h", "maxFailCount": 2}),
            ({}, {"minAge": "1h"}, {"minAge": "61m"}, {"minAge": "1h", "minFailCount": 1},
             {"minAge": "1h", "minFailCount": 2}, {"minFailCount": 0}, {"minFailCount": 1, "match": "Either"},
             {"minFailCount": 2, "match": "Either"}, {"minAge": "1h", "minFailCount": 2, "match": "Either"},
             {"minAge": "61m", "minFailCount": 2, "match": "Either"}, {"minAge": "61m", "match": "either"}),
        )
    ),
    *(
        {"spec.scaling": {"mode": mode, "minReplicas": least, **more}}
        for mode, least, more in product(
            ("Auto", "Manual", "External"), (0, 10, 11), ({}, {"replicas": 3}, {"maxReplicas": 20})
        )
    ),
    *(
        {"spec.worker.drainTimeout": drain, "spec.worker.template": {"spec": {"terminationGracePeriodSeconds": 30}}}
        for drain in ("30s", "30001ms", "29s")
    ),
    *({"spec.worker.env": [{"name": name}]} for name in ("A", "a.b-c", "1A", "A B", "", "CLAIMQ_SOCKET")),
    {"spec.worker.env": [{"name": "A", "value": ""}]},
    {"spec.worker.env": [{"name": "A", "value": "x" * 5000}]},
    {"spec.worker.args": ["", "x" * 20_000, "a\nb"]},
    {"spec.worker.command": []},
    {"spec.worker.template": {"metadata": {"annotations": {"a": "x" * 1000, "b": ""}}}},
    *(
        {"spec.worker.resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}}
        # Not 0.5: the parser takes it, the API server wants it in quotes and says so.
        for request, limit in product((1, "1000m", "1e3m", "0.5", "-1", "1.5", "x"), ("1", "999m", "1Ki"))
    ),
    *(
        {"spec.worker.template": {"spec": {"containers": [container]}}}
        for container in CONTAINERS
    ),
    *({"spec.queueName": name} for name in ("a", "a.b", "a..b", ".a", "a-", "x" * 128, "x" * 129, "ä")),
    *({"metadata.name": name} for name in ("x" * 39, "x" * 40, "a-b", "a.b", "-a", "0")),
]  # fmt: skip


def _fault(document: dict[str, Any]) -> str:
    """What the parser reports; empty when it accepts the document."""
    try:
        parse_manifest(document)
    except InvalidSpec as error:
        return str(error)
    return ""


def _all() -> Iterator[dict[str, Any]]:
    for address, companion in product(ADDRESSES, COMPANIONS):
        yield {"spec.redis": {"url": address, **companion}}
    for companion in COMPANIONS:
        yield {"spec.redis": companion}
    yield from SPECS


def test_the_api_server_and_the_parser_are_of_one_mind(api_server: ApiServer) -> None:
    different: list[str] = []
    for changes in _all():
        document = with_changes(changes)
        fault = _fault(document)
        message, _ = refusal(api_server, document)
        if bool(message) != bool(fault) and not (not message and BY_THE_PARSER.search(fault)):
            different.append(f"{changes}: API server {message or 'accepts'}; parser {fault or 'accepts'}")
    assert not different, "\n".join(different)
