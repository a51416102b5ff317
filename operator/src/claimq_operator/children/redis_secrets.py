"""The sidecar's access to its server: addresses as environment variables, secrets as files. Pure.

Secrets are mounted, never put into the environment: a file follows a rotation and does not show in process listings.
"""

from __future__ import annotations

from claimq.address import variables
from claimq_control.manifest import RedisSpec
from claimq_kubernetes.port import Json
from claimq_process.names import SECRETS_DIRECTORY, SECRETS_VOLUME


def environment(redis: RedisSpec, namespace: str) -> list[Json]:
    """The sidecar's CLAIMQ_REDIS_ variables, in the queue's namespace."""
    settings: dict[str, str | None] = {
        variables.REDIS_URL: redis.address() if redis.url is not None else None
    }
    settings[variables.REDIS_URL_FILE] = f"{SECRETS_DIRECTORY}/url" if redis.secret_ref is not None else None
    settings[variables.REDIS_NAMESPACE] = namespace
    settings[variables.REDIS_USERNAME] = redis.user
    settings[variables.REDIS_PASSWORD_FILE] = (
        f"{SECRETS_DIRECTORY}/password" if redis.password_secret_ref else None
    )
    if redis.secret_ref is not None and redis.cluster:
        settings[variables.REDIS_CLUSTER] = "true"
    if redis.sentinel is not None:
        settings[variables.REDIS_SENTINEL_MASTER] = redis.sentinel.master_name if redis.secret_ref else None
        settings[variables.REDIS_SENTINEL_USERNAME] = redis.sentinel.user
        has_password = redis.sentinel.password_secret_ref is not None
        settings[variables.REDIS_SENTINEL_PASSWORD_FILE] = (
            f"{SECRETS_DIRECTORY}/sentinel-password" if has_password else None
        )
    if redis.tls is not None:
        settings[variables.REDIS_CA_FILE] = f"{SECRETS_DIRECTORY}/ca.crt" if redis.tls.ca_secret_ref else None
        for variable, file in ((variables.REDIS_CERT_FILE, "tls.crt"), (variables.REDIS_KEY_FILE, "tls.key")):
            settings[variable] = f"{SECRETS_DIRECTORY}/{file}" if redis.tls.cert_secret_ref else None
    return [{"name": name, "value": value} for name, value in settings.items() if value is not None]


def volume(redis: RedisSpec) -> Json | None:
    """The volume with the files of the secrets; None if there are no secrets."""
    sources = [
        {"secret": {"name": secret, "items": [{"key": key, "path": file}]}}
        for secret, key, file in redis.secret_entries()
    ]
    return (
        {"name": SECRETS_VOLUME, "projected": {"defaultMode": 0o440, "sources": sources}} if sources else None
    )
