"""What settings grant to the queues of namespaces: names on servers, and hosts of passwords. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from claimq_control.wildcards import matches
from claimq_process.environment import Environment

_QUEUE_NAMES, _PASSWORD_HOSTS = "CLAIMQ_QUEUE_NAMES", "CLAIMQ_PASSWORD_HOSTS"
_GRANT = re.compile("(?P<namespaces>[a-z0-9*?-]{1,63})=(?P<pattern>[!-~]{1,253})")


@dataclass(frozen=True, slots=True)
class Grants:
    """Pairs of patterns: namespaces, and what their queues may use. ``*`` matches any text, ``?`` one character."""

    grants: tuple[tuple[str, str], ...] = ()

    def patterns(self, namespace: str) -> tuple[str, ...]:
        """The patterns that apply to the queues of a namespace."""
        return tuple(pattern for namespaces, pattern in self.grants if matches(namespace, namespaces))


NO_GRANTS = Grants()


@dataclass(frozen=True, slots=True)
class QueueGrants:
    """What queues may use besides what their own namespaces and Secrets allow."""

    queue_names: Grants = NO_GRANTS
    """CLAIMQ_QUEUE_NAMES, separated by commas: NAMESPACES=PATTERN, names on the server that queues of those
    namespaces may have in addition to names that begin with their own namespace."""
    password_hosts: Grants = NO_GRANTS
    """CLAIMQ_PASSWORD_HOSTS, separated by commas: NAMESPACES=PATTERN, hosts that passwords of Secrets in those
    namespaces may be sent to in addition to hosts that the Secrets list."""

    @classmethod
    def read(cls, reader: Environment) -> Self:
        """Reads both variables. A value that is not valid is a problem of ``reader``."""
        return cls(_read(reader, _QUEUE_NAMES), _read(reader, _PASSWORD_HOSTS))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Reads both variables. Raises InvalidSettings with every problem."""
        reader = Environment(environ)
        grants = cls.read(reader)
        reader.end()
        return grants

    def allows_name(self, namespace: str, name: str) -> bool:
        """Whether a ReliableQueue of the namespace may have this name on its server: one that begins with the namespace
        and a dot, or that a setting allows."""
        allowed = self.queue_names.patterns(namespace)
        return name.startswith(f"{namespace}.") or any(matches(name, pattern) for pattern in allowed)


NO_QUEUE_GRANTS = QueueGrants()


def parse_grant(text: str) -> tuple[str, str] | None:
    """Parses ``NAMESPACES=PATTERN`` into a pair; None if the text has another form."""
    match = _GRANT.fullmatch(text)
    return None if match is None else (match["namespaces"], match["pattern"])


def _read(reader: Environment, name: str) -> Grants:
    grants: list[tuple[str, str]] = []
    for text in (reader.text(name) or "").split(","):
        grant = parse_grant(text.strip())
        if grant is not None:
            grants.append(grant)
        elif text.strip():
            reader.bad(name, f'"{text.strip()}" is not NAMESPACES=PATTERN; write one such as team-a=orders-*')
    return Grants(tuple(grants))
