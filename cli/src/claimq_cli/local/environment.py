"""What the processes of a worker find in their environment. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from claimq_spec.duration import format_duration
from claimq_spec.manifest import Manifest

CONNECTION = (
    "CLAIMQ_REDIS_USERNAME", "CLAIMQ_REDIS_PASSWORD", "CLAIMQ_REDIS_PASSWORD_FILE", "CLAIMQ_REDIS_CA_FILE",
    "CLAIMQ_REDIS_CERT_FILE", "CLAIMQ_REDIS_KEY_FILE",
)  # fmt: skip
"""Settings of the connection that a URL cannot carry; `claimq up` hands its own on to the sidecars."""


@dataclass(frozen=True, slots=True)
class SidecarPlace:
    """Where one sidecar serves, and as whom it claims."""

    url: str
    socket: Path
    health_port: int
    claim_name: str
    lifecycle_key: str
    """What a request must show that drains it."""


def for_sidecar(outer: Mapping[str, str], manifest: Manifest, place: SidecarPlace) -> dict[str, str]:
    """The sidecar's environment: that of `claimq up`, with claimq's settings as this queue has them."""
    spec = manifest.spec
    kept = {name: value for name, value in outer.items() if not name.startswith("CLAIMQ_")}
    kept |= {name: outer[name] for name in CONNECTION if name in outer}
    if spec.redis is not None and spec.redis.user is not None:
        kept["CLAIMQ_REDIS_USERNAME"] = spec.redis.user
    if spec.processing_timeout is not None:
        kept["CLAIMQ_PROCESSING_TIMEOUT"] = format_duration(spec.processing_timeout)
    return kept | {
        "PYTHONSAFEPATH": "1",
        "CLAIMQ_REDIS_URL": place.url,
        "CLAIMQ_QUEUE": spec.queue_name,
        "CLAIMQ_WORKER": place.claim_name,
        "CLAIMQ_SOCKET": str(place.socket),
        "CLAIMQ_HEALTH_HOST": "127.0.0.1",
        "CLAIMQ_HEALTH_PORT": str(place.health_port),
        "CLAIMQ_LIFECYCLE_KEY": place.lifecycle_key,
        "CLAIMQ_CONCURRENCY": str(spec.worker.concurrency),
        "CLAIMQ_DRAIN_TIMEOUT": format_duration(spec.worker.drain_timeout),
        "CLAIMQ_LOG_LEVEL": outer.get("CLAIMQ_LOG_LEVEL", "info"),
    }


def for_app(outer: Mapping[str, str], manifest: Manifest, socket: Path) -> dict[str, str]:
    """The app's environment: that of `claimq up` without its way to the server, ``worker.env``, and the socket.

    ``python3`` means the Python that runs `claimq up`, unless a virtual environment is active.
    """
    env = {name: value for name, value in outer.items() if not name.startswith("CLAIMQ_REDIS_")}
    if "VIRTUAL_ENV" not in outer and sys.prefix != sys.base_prefix:
        env["PATH"] = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    for variable in manifest.spec.worker.env:
        if variable.value_from:
            continue  # in local mode such a variable comes from the environment of claimq up
        env[variable.name] = variable.value or ""
    return env | {"CLAIMQ_SOCKET": str(socket)}
