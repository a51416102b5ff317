"""The release of claimq that this process belongs to. All components of a release have the same version."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version


def _release() -> str:
    try:
        return version("claimq-process")
    except PackageNotFoundError:  # copied, not installed
        return ""


RELEASE = _release()
"""Its version, such as 0.1.0; empty if it is unknown."""
_MINOR = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?![0-9])")


def release_labels(label: str) -> dict[str, str]:
    """The label with the release; none if it is unknown. Values of labels have no "+"."""
    return {label: RELEASE.replace("+", "_")} if RELEASE else {}


def minor_of(release: str) -> tuple[int, int] | None:
    """Major and minor number; None for other text. Releases that differ only after these numbers work together."""
    match = _MINOR.match(release)
    return None if match is None else (int(match[1]), int(match[2]))
