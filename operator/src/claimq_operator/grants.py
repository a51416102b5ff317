"""Patterns of what the queues of a namespace may use, as the operator's settings grant them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from claimq_spec.wildcards import matches

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
"""What worker pods may use only if the setting CLAIMQ_WORKERS_MAY contains the word."""
_GRANT = re.compile("(?P<namespaces>[a-z0-9*?-]{1,63})=(?P<pattern>[!-~]{1,253})")


@dataclass(frozen=True, slots=True)
class Grants:
    """Pairs of patterns: namespaces, and what their queues may use. ``*`` matches any text, ``?`` one character."""

    grants: tuple[tuple[str, str], ...] = ()

    def patterns(self, namespace: str) -> tuple[str, ...]:
        """The patterns that apply to the queues of a namespace."""
        return tuple(pattern for namespaces, pattern in self.grants if matches(namespace, namespaces))


NO_GRANTS = Grants()


def parse_grant(text: str) -> tuple[str, str] | None:
    """Parses ``NAMESPACES=PATTERN`` into a pair; None if the text has another form."""
    found = _GRANT.fullmatch(text)
    return None if found is None else (found["namespaces"], found["pattern"])
