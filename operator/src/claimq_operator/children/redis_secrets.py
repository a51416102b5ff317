"""The sidecar's access to its server: addresses as environment variables, secrets as files. Pure.

Secrets are mounted, never put into the environment: a file follows a rotation and does not show in process listings.
"""

from __future__ import annotations

from claimq.address.server_parts import SERVER_PARTS
from claimq_control.manifest import RedisSpec
from claimq_kubernetes.port import Json
from claimq_process.names import SECRETS_DIRECTORY, SECRETS_VOLUME


def environment(redis: RedisSpec, namespace: str) -> list[Json]:
    """The sidecar's CLAIMQ_REDIS_ variables, in the queue's namespace."""
    files = {file: f"{SECRETS_DIRECTORY}/{file}" for _, _, file in redis.secret_entries()}
    parts = redis.parts(files) | {"namespace": namespace}
    return [
        {
            "name": part.file_variable if part.entry in files and part.file_variable else part.variable,
            "value": "true" if parts[part.name] is True else parts[part.name],
        }
        for part in SERVER_PARTS
        if part.name in parts
    ]


def volume(redis: RedisSpec) -> Json | None:
    """The volume with the files of the secrets; None if there are no secrets."""
    sources = [
        {"secret": {"name": secret, "items": [{"key": key, "path": file}]}}
        for secret, key, file in redis.secret_entries()
    ]
    return (
        {"name": SECRETS_VOLUME, "projected": {"defaultMode": 0o440, "sources": sources}} if sources else None
    )
