"""What a program needs to reach a server, each part declared once: its name, its variables, its place in a manifest.

Deployed programs have secrets in files, which follow a rotation and do not show in process listings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from claimq.address import variables


@dataclass(frozen=True, slots=True)
class ServerPart:
    """A part of the settings of a connection. ``doc`` and ``default`` are for the reference."""

    name: str
    """That of the field of RedisSettings. ``sentinel_master`` and ``cluster`` become parts of the URL."""
    doc: str
    variable: str = ""
    """The environment variable with the value; of a certificate, with its path."""
    file_variable: str = ""
    """The environment variable with the path of a file that holds the value."""
    entry: str = ""
    """What the file is called in which a program has this entry of a Secret."""
    default: str = "none"

    @property
    def is_path(self) -> bool:
        """Whether the value is the path of a file."""
        return self.name.endswith("_file")

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Its variables with default and meaning."""
        if self.variable:
            yield self.variable, self.default, self.doc
        if self.file_variable:
            yield self.file_variable, "none", f"a file with {self.doc}"


URL: Final = ServerPart(
    "url", "the URL of the server.", variables.REDIS_URL, variables.REDIS_URL_FILE, "url",
    f"this or `{variables.REDIS_URL_FILE}` is required",
)  # fmt: skip
SERVER_PARTS: Final = (
    URL,
    ServerPart("username", "the ACL user.", variables.REDIS_USERNAME, default="from the URL"),
    ServerPart(
        "password", "the password.", variables.REDIS_PASSWORD, variables.REDIS_PASSWORD_FILE, "password",
        "from the URL",
    ),
    ServerPart(
        "ca_file", "the CA of the server's certificate, as a PEM file.", variables.REDIS_CA_FILE, entry="ca.crt"
    ),
    ServerPart("cert_file", "a client certificate, as a PEM file.", variables.REDIS_CERT_FILE, entry="tls.crt"),
    ServerPart(
        "key_file", "the key of the client certificate, as a PEM file.", variables.REDIS_KEY_FILE, entry="tls.key"
    ),
    ServerPart(
        "sentinel_master", "the name of the primary at the Sentinels.", variables.REDIS_SENTINEL_MASTER,
        default="from the URL",
    ),
    ServerPart("sentinel_username", "the user for the Sentinels.", variables.REDIS_SENTINEL_USERNAME),
    ServerPart(
        "sentinel_password", "the password for the Sentinels.",
        file_variable=variables.REDIS_SENTINEL_PASSWORD_FILE, entry="sentinel-password",
    ),
    ServerPart(
        "cluster", "whether the URL names a node of a Redis Cluster.", variables.REDIS_CLUSTER, default="`false`"
    ),
    ServerPart(
        "namespace", "in a pod, the queue's namespace, where host names without a dot are Services.",
        variables.REDIS_NAMESPACE,
    ),
)  # fmt: skip
OF_ENTRY: Final = {part.entry: part.name for part in SERVER_PARTS if part.entry}
"""The names of the parts by those of the files that hold them."""
