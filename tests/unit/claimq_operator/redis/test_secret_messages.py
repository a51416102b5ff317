"""Messages about a Secret repeat neither the names of its other keys nor any part of a value."""

import asyncio
import base64
from pathlib import Path
from typing import Any, cast

import pytest

from claimq_control.manifest import PasswordSecretRef, RedisSpec, UrlSecretRef
from claimq_control.passes.worker_platform import ServerAccessError
from claimq_kubernetes.port import Cluster, Kind
from claimq_operator.redis.connections import RedisConnections

HIDDEN = ("canary-key", "canary-value", "Y2FuYXJ5LXZhbHVl", "s3cret-host", "s3cret-word")
OTHERS = {"canary-key": b"canary-value"}


class Secrets:
    """The part of a cluster that returns one Secret, with more keys than the manifest names."""

    def __init__(self, **data: bytes) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in {**OTHERS, **data}.items()}
        self.data: dict[str, str] = encoded

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        del kind, namespace, name
        return {"data": self.data}


@pytest.mark.parametrize(
    ("secrets", "redis", "reason"),
    [
        (Secrets(), RedisSpec(secret_ref=UrlSecretRef(name="redis")), "SecretKeyMissing"),
        (
            Secrets(url=b"redis://user:s3cret-word@s3cret-host:no-port/0"),
            RedisSpec(secret_ref=UrlSecretRef(name="redis")),
            "AddressInvalid",
        ),
        (
            Secrets(url=b"redis://pa@ss/s3cret-word@s3cret-host"),
            RedisSpec(secret_ref=UrlSecretRef(name="redis")),
            "AddressInvalid",
        ),
        (
            Secrets(password=b"s3cret-word", hosts=b"s3cret-host"),
            RedisSpec(url="redis://elsewhere:6379/0", password_secret_ref=PasswordSecretRef(name="redis")),
            "PasswordHostForbidden",
        ),
        (
            Secrets(password=b"s3cret-word" * 2000, hosts=b"*"),
            RedisSpec(url="redis://elsewhere:6379/0", password_secret_ref=PasswordSecretRef(name="redis")),
            "SecretTooLarge",
        ),
        (
            Secrets(password=b"s3cret-word", hosts=b"elsewhere " * 2000),
            RedisSpec(url="redis://elsewhere:6379/0", password_secret_ref=PasswordSecretRef(name="redis")),
            "PasswordHostForbidden",
        ),
    ],
    ids=[
        "a missing key",
        "a bad port",
        "a bad password",
        "a forbidden host",
        "a large password",
        "many hosts",
    ],
)
def test_a_message_shows_no_other_key_and_no_value(
    tmp_path: Path, secrets: Secrets, redis: RedisSpec, reason: str
) -> None:
    servers = RedisConnections(cast("Cluster", secrets), tmp_path)
    with pytest.raises(ServerAccessError) as raised:
        asyncio.run(servers.server_for(("media", "thumbs"), redis))
    assert raised.value.fault.reason == reason
    assert [text for text in HIDDEN if text in raised.value.fault.message] == []


def test_a_value_that_is_not_base64_is_not_shown(tmp_path: Path) -> None:
    secrets = Secrets()
    secrets.data["url"] = "canary-value!"
    servers = RedisConnections(cast("Cluster", secrets), tmp_path)
    with pytest.raises(ServerAccessError) as raised:
        asyncio.run(servers.server_for(("media", "thumbs"), RedisSpec(secret_ref=UrlSecretRef(name="redis"))))
    assert raised.value.fault.reason == "SecretKeyInvalid"
    assert [text for text in HIDDEN if text in raised.value.fault.message] == []


async def test_queues_may_name_different_keys_of_one_secret(tmp_path: Path) -> None:
    secrets = Secrets(one=b"redis://one:6379/0", two=b"redis://two:6379/0")
    servers = RedisConnections(cast("Cluster", secrets), tmp_path)
    for _ in range(2):
        for key in ("one", "two"):
            redis = RedisSpec(secret_ref=UrlSecretRef(name="redis", key=key))
            shared = await servers.server_for(("media", key), redis)
            assert shared.server.connection.settings.url == f"redis://{key}.media.svc:6379/0"
    await servers.close()
