"""Environment variables of a worker's processes. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from claimq.address import variables
from claimq_control.manifest import Manifest
from claimq_process.duration import format_duration

CONNECTION = (
    variables.REDIS_USERNAME, variables.REDIS_PASSWORD, variables.REDIS_PASSWORD_FILE, variables.REDIS_CA_FILE,
    variables.REDIS_CERT_FILE, variables.REDIS_KEY_FILE,
)  # fmt: skip
"""Connection settings that are not part of the URL; sidecars inherit those of `claimq up`."""


@dataclass(frozen=True, slots=True)
class SidecarInstance:
    """The settings of a sidecar that differ between workers."""

    url: str
    socket: Path
    health_port: int
    claim_name: str
    lifecycle_key: str
    """Secret that a drain request must contain."""
    push_port: int
    """Port for an app that listens for its items on one; each worker has its own."""


def for_sidecar(outer: Mapping[str, str], manifest: Manifest, instance: SidecarInstance) -> dict[str, str]:
    """The sidecar's environment: that of `claimq up` with the settings of this queue."""
    spec = manifest.spec
    kept = {name: value for name, value in outer.items() if not name.startswith("CLAIMQ_")}
    kept |= {name: outer[name] for name in CONNECTION if name in outer}
    if spec.redis is not None and spec.redis.user is not None:
        kept[variables.REDIS_USERNAME] = spec.redis.user
    if spec.processing_timeout is not None:
        kept[variables.PROCESSING_TIMEOUT] = format_duration(spec.processing_timeout)
    if spec.worker.pushes is not None:
        kept |= spec.worker.pushes.environment()
    return (
        kept
        | _push_address(manifest, instance.socket, instance.push_port)
        | {
            "PYTHONSAFEPATH": "1",
            variables.REDIS_URL: instance.url,
            variables.QUEUE: spec.queue_name,
            variables.WORKER: instance.claim_name,
            variables.SOCKET: str(instance.socket),
            variables.HEALTH_HOST: "127.0.0.1",
            variables.HEALTH_PORT: str(instance.health_port),
            variables.LIFECYCLE_KEY: instance.lifecycle_key,
            variables.CONCURRENCY: str(spec.worker.concurrency),
            variables.CLAIM_AHEAD: str(spec.worker.claim_ahead),
            variables.DRAIN_TIMEOUT: format_duration(spec.worker.drain_timeout),
            variables.LOG_LEVEL: outer.get(variables.LOG_LEVEL, "info"),
        }
    )


def for_app(outer: Mapping[str, str], manifest: Manifest, socket: Path, push_port: int) -> dict[str, str]:
    """The app's environment: that of `claimq up` without the Redis settings, plus ``worker.env``, the socket, and
    where to listen for items.

    ``python3`` means the Python that runs `claimq up`, unless a virtual environment is active.
    """
    env = {name: value for name, value in outer.items() if not name.startswith("CLAIMQ_REDIS_")}
    if "VIRTUAL_ENV" not in outer and sys.prefix != sys.base_prefix:
        env["PATH"] = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    for variable in manifest.spec.worker.env:
        if variable.value_from:
            continue  # in local mode such a variable is inherited from claimq up
        env[variable.name] = variable.value or ""
    return env | {variables.SOCKET: str(socket)} | _push_address(manifest, socket, push_port)


def _push_address(manifest: Manifest, socket: Path, push_port: int) -> dict[str, str]:
    """The variable that says where the app listens for items; none if it claims them itself."""
    pushes = manifest.spec.worker.pushes
    if pushes is None:
        return {}
    if pushes.port is None:
        return {variables.PUSH_SOCKET: str(socket.with_suffix(".app"))}
    return {variables.PUSH_PORT: str(push_port)}
