"""What a user may ask an API server for, and what the user did ask for, as (verb, group, resource)."""

from collections.abc import Iterable, Mapping
from typing import Any

Right = tuple[str, str, str]


def granted(roles: Iterable[Mapping[str, Any]]) -> set[Right]:
    """What the rules of roles and cluster roles give."""
    return {
        (verb, group, resource)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def asked(log: Iterable[Mapping[str, Any]], account: str) -> tuple[set[Right], set[Right]]:
    """What an account asked for by an audit log, and what of it was refused.

    A request whose credentials were not accepted has no user in the log: it may come from a process of an earlier
    test, whose API server had the same port.
    """
    wanted: set[Right] = set()
    refused: set[Right] = set()
    for entry in log:
        about: dict[str, str] = entry.get("objectRef") or {}
        if entry["user"].get("username") != account or "resource" not in about:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        right = (entry["verb"], about.get("apiGroup", ""), resource)
        wanted.add(right)
        answer: dict[str, Any] = entry.get("responseStatus") or {}
        code = answer.get("code")
        if code == 201 and entry["verb"] == "patch":
            wanted.add(("create", right[1], right[2]))  # an apply that made the object
        if code in (401, 403):
            refused.add(right)
    return wanted, refused
