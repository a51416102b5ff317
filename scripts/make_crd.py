"""Generates crds/reliablequeues.claimq.dev.yaml from the declarations in claimq_control.manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from claimq_control.crd.definition import GROUP, PLURAL, custom_resource_definition

FILE = Path(__file__).parent.parent / "crds" / f"{PLURAL}.{GROUP}.yaml"
HEAD = "# Made by scripts/make_crd.py from claimq_control.manifest; change the declarations, not this file.\n"


class _Dumper(yaml.SafeDumper):
    """Block style, no anchors: people read the file and diff it."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def crd_text() -> str:
    """The file's whole text."""
    return HEAD + yaml.dump(custom_resource_definition(), Dumper=_Dumper, sort_keys=False, width=120)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(crd_text())
