"""The files of an example, as modules: an example's folder is no package and on of no client path."""

import importlib.util
import sys
from types import ModuleType

from testkit.tree import ROOT

CHECKSUMS = ROOT / "examples" / "checksums"


def load(name: str) -> ModuleType:
    """A file of the checksum example, without its ending."""
    spec = importlib.util.spec_from_file_location(f"checksums_{name}", CHECKSUMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
