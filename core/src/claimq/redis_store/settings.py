"""Settings of a connection: a URL, and what a URL cannot hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from claimq.address.redis_url import parse_url, with_namespace
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

    ``url``: one of redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster://,
    rediss+cluster://. ``username`` and ``password`` override those in the URL; ``sentinel_password`` is for
    the sentinels themselves. The three files are PEM: the CA that signed the server's certificate, and a
    client certificate with its key. Timeouts in seconds; ``retry_for`` is how long one call goes on trying
    through an outage before it raises StoreUnavailable; ``verdict_retry_for`` is the same for done, fail, requeue
    and unclaim if they are to be tried for longer, and renewals then have connections of their own; both are at most
    50 minutes, since the server keeps the reply of a call for that long and a later try would execute it again;
    ``reply_timeout`` is the longest silence of a call, not the time that a large reply takes over a slow link.
    ``largest_item``: the bytes, with its header, of the largest item that this program has the memory to claim; a
    larger one is not sent to it, but moved to failed with that reason. None: no limit.
    ``largest_reply``: the bytes of the largest reply that this program reads, for servers that others control; a call
    with a larger reply raises StoreMisused, also if only its objects take more bytes of memory. None: no limit.
    ``namespace``: a Kubernetes namespace; host names without a dot, in the URL and in what Sentinels and nodes of a
    cluster report, are Services there, whatever the namespace of this process. Empty: they are looked up as they are.
    ``read_bounds``: of a read that takes several calls, such as that of all workers; a larger one raises ReadTooLarge.
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
