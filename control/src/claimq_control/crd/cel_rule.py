"""A validation rule of the CRD in CEL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CelRule:
    """One validation. ``code`` names the equal rule of ``manifest.rules``; a rule on one value has none."""

    code: str
    rule: str
    message: str
    """The message with the fix. Used if ``says`` cannot be evaluated or its value has a line end."""
    field: str = ""
    """The path below the object to which the API server attributes the error."""
    says: str = ""
    """An expression for the message with the values in it."""

    def to_schema(self) -> dict[str, Any]:
        """As an entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.rule, "message": self.message}
        entry |= {"messageExpression": self.says} if self.says else {}
        return entry | ({"fieldPath": self.field} if self.field else {})


def literal(text: str) -> str:
    """``text`` as CEL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def joined(*parts: str) -> str:
    """An expression that concatenates texts; parts that begin with ``=`` are expressions."""
    return " + ".join(part[1:] if part.startswith("=") else literal(part) for part in parts)
