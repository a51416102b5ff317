"""Connections to servers, from Secrets and certificates."""

import asyncio
import base64
from pathlib import Path
from typing import cast

import pytest

from claimq_control.manifest import CaSecretRef, RedisSpec, TlsSpec
from claimq_control.passes.worker_platform import ServerAccessError
from claimq_kubernetes.port import Cluster, ClusterError, ClusterUnavailable, Json, Kind, NotFound, Refused
from claimq_operator.redis.connections import API_SECONDS, RedisConnections
from claimq_process.certificates import MAX_BYTES, NAMESPACE_BYTES
from testkit.skipping_loop import run_skipping

THUMBS, VIDEOS = ("media", "thumbs"), ("media", "videos")
BY_TLS = RedisSpec(url="rediss://redis:6379/0", tls=TlsSpec(ca_secret_ref=CaSecretRef(name="redis")))


class Secrets:
    """A cluster in which all Secrets hold the same certificates."""

    def __init__(self) -> None:
        self.certificates = b"first"
        self.is_down = False
        self.refusal: ClusterError | None = None
        self.requests = 0

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del kind, namespace, name
        self.requests += 1
        if self.is_down:
            raise ClusterUnavailable("the API server does not respond")
        if self.refusal is not None:
            raise self.refusal
        return {"data": {"ca.crt": base64.b64encode(self.certificates).decode()}}


def kept(directory: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in directory.iterdir())


def test_certificates_are_deleted_when_no_queue_uses_them_any_more(
    tmp_path: Path,
) -> None:
    async def rotate() -> list[list[bytes]]:
        secrets = Secrets()
        servers = RedisConnections(cast("Cluster", secrets), tmp_path)
        for key in (THUMBS, VIDEOS):
            await servers.server_for(key, BY_TLS)
        seen = [kept(tmp_path)]
        secrets.certificates = b"second"
        servers.expire_secrets(THUMBS, BY_TLS)
        await servers.server_for(THUMBS, BY_TLS)
        seen.append(kept(tmp_path))
        await servers.server_for(VIDEOS, BY_TLS)
        seen.append(kept(tmp_path))
        for key in (THUMBS, VIDEOS):
            await servers.release(key)
        seen.append(kept(tmp_path))
        return seen

    assert asyncio.run(rotate()) == [[b"first"], [b"first", b"second"], [b"second"], []]


def test_an_api_server_that_is_down_is_asked_once_for_what_is_known(tmp_path: Path) -> None:
    """Each request may take as long as half of the time that a pass gives a server."""

    async def requests() -> list[int]:
        secrets, seen = Secrets(), list[int]()
        servers = RedisConnections(cast("Cluster", secrets), tmp_path)
        for key in (THUMBS, VIDEOS):
            await servers.server_for(key, BY_TLS)
        secrets.is_down, secrets.requests = True, 0
        for key in (THUMBS, VIDEOS, THUMBS):
            servers.expire_secrets(key, BY_TLS)
            await servers.server_for(key, BY_TLS)
            seen.append(secrets.requests)
        await servers.close()
        return seen

    assert run_skipping(requests()) == [1, 1, 1]


def test_a_secret_that_no_queue_names_any_more_is_forgotten(tmp_path: Path) -> None:
    async def forgotten() -> list[str]:
        secrets = Secrets()
        servers = RedisConnections(cast("Cluster", secrets), tmp_path)
        for key in (THUMBS, VIDEOS):
            await servers.server_for(key, BY_TLS)
        secrets.is_down = True
        answers: list[str] = []
        for left in (VIDEOS, THUMBS):
            await servers.release(left)
            try:
                await servers.server_for(THUMBS, BY_TLS)
                answers.append("remembered")
            except ServerAccessError as error:
                answers.append(error.fault.reason)
        return answers

    assert asyncio.run(forgotten()) == ["remembered", "SecretUnreadable"]


def test_a_fault_during_an_outage_of_the_api_server_does_not_lose_the_secrets(tmp_path: Path) -> None:
    """Both can be on one node: when the queue's server is back, its claims have to be returned."""

    async def reconnect() -> tuple[bool, bool]:
        secrets = Secrets()
        servers = RedisConnections(cast("Cluster", secrets), tmp_path)
        before = await servers.server_for(THUMBS, BY_TLS)
        secrets.is_down, secrets.certificates = True, b"second"
        servers.expire_secrets(THUMBS, BY_TLS)
        during = await servers.server_for(THUMBS, BY_TLS)
        secrets.is_down = False
        await asyncio.sleep(API_SECONDS)
        after = await servers.server_for(THUMBS, BY_TLS)
        return during is before, after is not before

    assert run_skipping(reconnect()) == (True, True)


@pytest.mark.parametrize("refusal", [NotFound("gone"), Refused("no", forbidden=True)])
def test_a_secret_that_may_not_be_read_any_more_is_not_used_in_an_outage(
    tmp_path: Path, refusal: ClusterError
) -> None:
    async def reasons() -> list[str]:
        secrets, found = Secrets(), list[str]()
        servers = RedisConnections(cast("Cluster", secrets), tmp_path)
        await servers.server_for(THUMBS, BY_TLS)
        secrets.refusal = refusal
        for secrets.is_down in (False, True):
            servers.expire_secrets(THUMBS, BY_TLS)
            with pytest.raises(ServerAccessError) as caught:
                await servers.server_for(THUMBS, BY_TLS)
            found.append(caught.value.fault.reason)
        return found

    assert asyncio.run(reasons())[1] == "SecretUnreadable"


def test_certificates_of_one_tenant_do_not_use_the_quota_of_another(tmp_path: Path) -> None:
    """Each queue of one namespace uses a Secret of its own, on a file system as small as the operator's."""

    async def fill() -> tuple[set[str], bool]:
        secrets = Secrets()
        servers = RedisConnections(cast("Cluster", secrets), tmp_path)
        refused: set[str] = set()
        for number in range(20):
            secrets.certificates = b"%d" % number + b"x" * (MAX_BYTES["ca.crt"] - 2)
            redis = RedisSpec(url="rediss://r", tls=TlsSpec(ca_secret_ref=CaSecretRef(name=f"s{number}")))
            try:
                await servers.server_for(("media", f"q{number}"), redis)
            except ServerAccessError as error:
                refused.add(error.fault.reason)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= NAMESPACE_BYTES
        secrets.certificates = b"another tenant's"
        await servers.server_for(("print", "q"), BY_TLS)
        return refused, b"another tenant's" in kept(tmp_path)

    assert asyncio.run(fill()) == ({"CertificateTooLarge", "SecretTooLarge"}, True)
