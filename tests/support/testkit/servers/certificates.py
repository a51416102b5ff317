"""Certificates of an authority that only one test knows."""

from collections.abc import Mapping
from pathlib import Path

import trustme


class Certificates:
    """A CA, a certificate of the server for 127.0.0.1 and localhost, and one of a client, as PEM files."""

    def __init__(self, directory: Path) -> None:
        """Makes them in `directory`."""
        authority = trustme.CA()
        self.ca_file = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca_file)
        self.server_cert_file, self.server_key_file = _issued(
            authority, directory, "server", "127.0.0.1", "localhost"
        )
        self.client_cert_file, self.client_key_file = _issued(authority, directory, "client", "client.test")

    def server_options(self) -> Mapping[str, str]:
        """The settings that make a server use them; a client that shows a certificate must show a good one."""
        return {
            "tls-ca-cert-file": str(self.ca_file),
            "tls-cert-file": str(self.server_cert_file),
            "tls-key-file": str(self.server_key_file),
            "tls-auth-clients": "optional",
        }


def _issued(authority: trustme.CA, directory: Path, name: str, *identities: str) -> tuple[Path, Path]:
    issued = authority.issue_cert(*identities)
    cert_file, key_file = directory / f"{name}.pem", directory / f"{name}.key"
    cert_file.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key_file)
    return cert_file, key_file
