"""What the operator's settings allow the queues of a namespace: patterns, each for some namespaces. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

RESTRICTIONS = (
    "HostNetwork",
    "HostPID",
    "HostIPC",
    "HostPath",
    "HostPorts",
    "ServiceAccount",
    "Root",
    "Privileged",
    "Capabilities",
    "Unconfined",
    "ProbeHost",
)
"""What worker pods may ask for if a setting allows it, each by its word."""
_GRANT = re.compile("(?P<namespaces>[a-z0-9*?-]{1,63})=(?P<pattern>[!-~]{1,253})")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Pairs of patterns: of namespaces, and of what their queues may use. ``*`` and ``?`` stand for any characters."""

    grants: tuple[tuple[str, str], ...] = ()

    def patterns(self, namespace: str) -> tuple[str, ...]:
        """What queues of a namespace may use."""
        return tuple(pattern for namespaces, pattern in self.grants if matches(namespace, namespaces))


def matches(text: str, pattern: str) -> bool:
    """Whether the whole text is as the pattern says; all but ``*`` and ``?`` stands for itself."""
    words = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(words, text) is not None


NO_GRANTS = Allowed()


def read_grant(text: str) -> tuple[str, str] | None:
    """``NAMESPACES=PATTERN`` as a pair; None if it is not of this form."""
    found = _GRANT.fullmatch(text)
    return None if found is None else (found["namespaces"], found["pattern"])
