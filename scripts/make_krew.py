"""Makes the archive and the manifest of `kubectl claimq` for krew: make_krew.py URL DIRECTORY.

URL is where the archive will be published. The same sources make the same archive, so its checksum can be compared.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
FILES = (ROOT / "cli" / "krew" / "kubectl-claimq", ROOT / "LICENSE")
MANIFEST = ROOT / "cli" / "krew" / "claimq.yaml"


def archive() -> bytes:
    """The archive with the plugin and the license."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in FILES:
            entry = tarfile.TarInfo(file.name)
            entry.size = file.stat().st_size
            entry.mode = 0o755 if file.name == "kubectl-claimq" else 0o644
            tar.addfile(entry, io.BytesIO(file.read_bytes()))
    return gzip.compress(packed.getvalue(), mtime=0)


def manifest(url: str, packed: bytes) -> str:
    """The manifest for an archive that is published at this URL."""
    body = yaml.safe_load(MANIFEST.read_text())
    for platform in body["spec"]["platforms"]:
        platform |= {"uri": url, "sha256": hashlib.sha256(packed).hexdigest()}
    return yaml.safe_dump(body, sort_keys=False)


def main() -> None:
    """Writes both files."""
    if len(sys.argv) != 3 or not sys.argv[1].startswith("https://"):
        sys.exit("usage: make_krew.py https://HOST/PATH/claimq.tar.gz DIRECTORY")
    packed = archive()
    directory = Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "claimq.tar.gz").write_bytes(packed)
    (directory / "claimq.yaml").write_text(manifest(sys.argv[1], packed))


if __name__ == "__main__":
    main()
