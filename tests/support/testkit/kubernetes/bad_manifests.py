"""A good manifest, and the mistakes of ``bad_manifests.yaml`` that the parser and the CRD refuse."""

from __future__ import annotations

import copy

import yaml

from claimq_kubernetes.port import Json
from testkit.repository.tree import ROOT

GOOD: Json = {
    "apiVersion": "claimq.dev/v1alpha1",
    "kind": "ReliableQueue",
    "metadata": {"name": "thumbnails", "namespace": "media"},
    "spec": {
        "redis": {"url": "redis://redis:6379/0"},
        "worker": {"image": "registry.example/thumbnailer:1.4"},
    },
}
TABLE = ROOT / "tests/unit/claimq_control/bad_manifests.yaml"
MISTAKES: dict[str, Json] = {entry["mistake"]: entry for entry in yaml.safe_load(TABLE.read_text())}


def with_mistake(mistake: str) -> Json:
    """The good manifest with one mistake of the table."""
    entry = MISTAKES[mistake]
    return with_changes(entry.get("set", {}), tuple(entry.get("without", ())))


def with_changes(changes: Json, without: tuple[str, ...] = ()) -> Json:
    """The good manifest with values put in and fields taken away."""
    document = copy.deepcopy(GOOD)
    for path, value in {**changes, **dict.fromkeys(without)}.items():
        *parents, last = path.split(".")
        place = document
        for parent in parents:
            place = place[parent]
        if path in without:
            del place[last]
        else:
            place[last] = value
    return document
