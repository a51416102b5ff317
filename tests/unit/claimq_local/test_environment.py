"""Environment variables of a worker's processes."""

import sys
from pathlib import Path

import pytest

from claimq_control.manifest import Manifest, parse_manifest
from claimq_local.workers.environment import SidecarInstance, for_app, for_sidecar
from claimq_sidecar.settings import SidecarSettings, unknown_variables

SOCKET = Path("/run/q-1.sock")
INSTANCE = SidecarInstance("redis://:secret@somewhere/0", SOCKET, 20001, "local-1.1", "the-key", 20002)


def manifest(**spec: object) -> Manifest:
    worker = {"command": ["app"], "drainTimeout": "7s", "env": [{"name": "SIZE", "value": "big"}]}
    return parse_manifest(
        {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": {"name": "thumbs"},
            "spec": {"worker": worker, "processingTimeout": "2m", **spec},
        },
        local=True,
    )


def test_the_sidecar_understands_every_variable_that_it_gets() -> None:
    env = for_sidecar({"PATH": "/bin", "CLAIMQ_QUEUE": "another", "CLAIMQ_SPARE": "x"}, manifest(), INSTANCE)
    settings = SidecarSettings.from_environment(env)
    assert unknown_variables(env) == []
    assert (settings.queue, settings.worker, settings.socket) == ("thumbs", "local-1.1", SOCKET)
    assert (settings.health_port, settings.drain_timeout, settings.processing_timeout) == (20001, 7.0, 120.0)
    assert settings.redis.settings().url == INSTANCE.url
    assert settings.lifecycle_key == "the-key"
    assert settings.concurrency == 1


def test_the_app_gets_as_many_items_at_once_as_the_manifest_says() -> None:
    spec = manifest(worker={"command": ["app"], "concurrency": 20, "claimAhead": 7})
    settings = SidecarSettings.from_environment(for_sidecar({}, spec, INSTANCE))
    assert (settings.concurrency, settings.claim_ahead) == (20, 7)


@pytest.mark.parametrize(
    ("push", "variable", "address"),
    [
        ({}, "CLAIMQ_PUSH_SOCKET", "/run/q-1.app"),
        ({"port": 8080, "timeout": "5s"}, "CLAIMQ_PUSH_PORT", "20002"),
    ],
)
def test_app_and_sidecar_agree_on_where_the_app_listens(
    push: dict[str, object], variable: str, address: str
) -> None:
    spec = manifest(worker={"command": ["app"], "delivery": "push", "push": push})
    env = for_sidecar({}, spec, INSTANCE)
    assert env[variable] == for_app({}, spec, SOCKET, 20002)[variable] == address
    settings = SidecarSettings.from_environment(env)
    assert unknown_variables(env) == []
    assert settings.push is not None
    assert settings.push.timeout == (5.0 if push else 60.0)
    assert variable not in for_app({}, manifest(), SOCKET, 20002)


def test_what_a_url_cannot_carry_is_handed_on_to_the_sidecar() -> None:
    env = for_sidecar({"CLAIMQ_REDIS_PASSWORD": "secret"}, manifest(), INSTANCE)
    assert env["CLAIMQ_REDIS_PASSWORD"] == "secret"


def test_the_manifest_names_the_user() -> None:
    env = for_sidecar({}, manifest(redis={"url": "redis://somewhere/0", "user": "thumbs"}), INSTANCE)
    assert env["CLAIMQ_REDIS_USERNAME"] == "thumbs"


def test_the_app_never_sees_the_server() -> None:
    env = for_app(
        {"CLAIMQ_REDIS_URL": "x", "CLAIMQ_REDIS_PASSWORD": "y", "HOME": "/h"}, manifest(), SOCKET, 20002
    )
    assert [name for name in env if "REDIS" in name or "KEY" in name] == []
    assert (env["HOME"], env["SIZE"], env["CLAIMQ_SOCKET"]) == ("/h", "big", str(SOCKET))


def test_a_variable_with_a_source_comes_from_the_environment_of_claimq_up() -> None:
    source = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    spec = manifest(worker={"command": ["app"], "env": [source]})
    assert for_app({"KEY": "mine"}, spec, SOCKET, 20002)["KEY"] == "mine"
    assert "KEY" not in for_app({}, spec, SOCKET, 20002)


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="only in a virtual environment")
def test_python3_is_claimqs_own_python_unless_a_virtual_environment_is_active() -> None:
    own = str(Path(sys.prefix) / "bin")
    assert for_app({"PATH": "/bin"}, manifest(), SOCKET, 20002)["PATH"] == f"{own}:/bin"
    assert for_app({"PATH": "/bin", "VIRTUAL_ENV": "/v"}, manifest(), SOCKET, 20002)["PATH"] == "/bin"
