"""What the manifest and the settings of the sidecar have in common about push delivery."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

PUSH_PATH: Final = "^/[!-~]*$"
"""Pattern of a path of the app: what a request line can hold."""


class PushMode(StrEnum):
    """The content mode of CloudEvents over HTTP."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCHED = "batched"
