"""scripts/mutants.toml names modules, tests and lines that exist."""

import tomllib
from typing import Any

from testkit.repository.tree import ROOT

CONFIG: dict[str, Any] = tomllib.loads((ROOT / "scripts/mutants.toml").read_text())


def test_every_module_to_change_has_its_tests() -> None:
    paths = [path for module, tests in CONFIG["modules"].items() for path in (module, *tests)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [module for module, tests in CONFIG["modules"].items() if not tests] == []


def test_every_change_without_a_difference_is_explained_and_its_line_exists() -> None:
    modules = [ROOT / module for module in CONFIG["modules"]]
    files = [file for module in modules for file in (module.glob("*.py") if module.is_dir() else [module])]
    lines = {line.strip() for file in files for line in file.read_text().splitlines()}
    listed = CONFIG.get("equivalent", [])
    assert [one["before"] for one in listed if one["before"] not in lines] == []
    assert [one["before"] for one in listed if not one["why"]] == []
