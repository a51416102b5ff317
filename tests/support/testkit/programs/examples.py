"""The files of an example, as modules: an example's folder is no package."""

from types import ModuleType

from testkit.repository.tree import ROOT, loaded

CHECKSUMS = ROOT / "examples" / "checksums"


def load(name: str) -> ModuleType:
    """A file of the checksum example, without its ending."""
    return loaded(CHECKSUMS / f"{name}.py", f"checksums_{name}")
