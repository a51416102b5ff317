"""Settings of a connection: a URL, and what a URL cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from claimq.address.redis_url import parse_url, with_namespace, with_topology
from claimq.arguments import OptionalSeconds, Seconds, count, of_type, optional_count
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, ReadBounds

_LONGEST_RETRY = 3000.0
"""The reply of a call is kept for an hour after the last call, which is put off only every ten minutes
(``lua/lib/call.lua``)."""
_TEXTS = (
    "url", "username", "password", "sentinel_username", "sentinel_password", "ca_file", "cert_file", "key_file",
    "namespace",
)  # fmt: skip


@dataclass(frozen=True)
class RedisSettings:
    """Settings of a connection. Secrets are never shown in ``repr`` or in errors.

    Timeouts are in seconds, sizes in bytes. None is no limit.

    - ``url``: redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or
      rediss+cluster://.
    - ``username``, ``password``: override those in the URL. ``sentinel_password`` is for the sentinels.
    - ``ca_file``, ``cert_file``, ``key_file``: PEM files: the CA of the server's certificate, and a client certificate
      with its key.
    - ``retry_for``: how long a call is repeated in an outage before it raises StoreUnavailable. At most 50 minutes: the
      server keeps the reply of a call for that long, and would execute a later repetition again.
    - ``verdict_retry_for``: the same for done, fail, requeue and unclaim. Renewals then have connections of their own.
    - ``reply_timeout``: the longest silence of a call. A large reply may take longer over a slow link.
    - ``largest_item``: size, with the header, of the largest item that this program can hold. A claim moves a larger
      item to failed, with that reason.
    - ``largest_reply``: size of the largest reply, on the wire and as objects in memory. A larger reply raises
      StoreMisused. For servers that others control.
    - ``read_bounds``: bounds of a read of several calls, such as that of all workers. A larger read raises
      ReadTooLarge.
    - ``namespace``: a Kubernetes namespace in which host names without a dot are Services, also those that Sentinels
      and nodes report. Empty: names are looked up as they are.
    """

    url: str = field(default="redis://localhost:6379/0", repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    connect_timeout: Seconds = Seconds(5.0, least=0.001)
    reply_timeout: Seconds = Seconds(5.0, least=0.001)
    retry_for: Seconds = Seconds(10.0, least=0.001, most=_LONGEST_RETRY)
    verdict_retry_for: OptionalSeconds = OptionalSeconds(None, least=0.001, most=_LONGEST_RETRY)
    max_connections: int = 16
    largest_item: int | None = None
    largest_reply: int | None = None
    read_bounds: ReadBounds = DEFAULT_BOUNDS
    namespace: str = ""

    def __post_init__(self) -> None:
        for name in _TEXTS:
            setting = getattr(self, name)
            if not isinstance(setting, str) and (setting is not None or name in ("url", "namespace")):
                # The value is not shown: it may be a secret.
                raise TypeError(f"{name} is {type(setting).__name__}; give text")
        parse_url(self.url)
        if self.namespace:
            object.__setattr__(self, "url", with_namespace(self.url, self.namespace))
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("a client certificate needs both cert_file and key_file")
        count("max_connections", self.max_connections, least=1)
        optional_count("largest_item", self.largest_item, least=1)
        optional_count("largest_reply", self.largest_reply, least=1)
        of_type("read_bounds", self.read_bounds, ReadBounds, "ReadBounds")

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of its files."""
        return tuple(path for path in (self.ca_file, self.cert_file, self.key_file) if path is not None)

    def sockets_for(self, use: str) -> str:
        """The use whose sockets serve a call. Renewals have their own only if verdicts are retried for longer."""
        return "verdicts" if use == "renewals" and self.verdict_retry_for is None else use

    def seconds_for(self, use: str) -> float:
        """How long a call of this use is retried."""
        longer = self.verdict_retry_for if use == "verdicts" else None
        return self.retry_for if longer is None else longer


def settings_of(parts: Mapping[str, Any], **options: Any) -> RedisSettings:
    """The settings from :data:`claimq.address.server_parts.SERVER_PARTS`, by name, and fields that are no such parts.

    Raises ValueError.
    """
    fields_by_name = dict(parts)
    is_cluster, master = fields_by_name.pop("cluster", False), fields_by_name.pop("sentinel_master", None)
    if master is None and fields_by_name.get("sentinel_username"):
        master = ""  # then the URL must have the name
    url = with_topology(fields_by_name.pop("url", ""), master=master, cluster=is_cluster)
    return RedisSettings(url, **fields_by_name, **options)
