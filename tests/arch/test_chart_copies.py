"""The chart's README and its copy of the CRD are what scripts/make_chart.py makes of the sources."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

import pytest
import yaml

from testkit.repository.chart import FOLDER
from testkit.repository.tree import script

FIX = "run: python scripts/make_chart.py"


@pytest.fixture(scope="module")
def make_chart() -> ModuleType:
    return script("make_chart")


def test_the_chart_has_the_repositorys_definition(make_chart: ModuleType) -> None:
    assert make_chart.CRD_COPY.read_text() == make_chart.CRD.read_text(), FIX


def test_the_table_of_values_is_made_from_the_values(make_chart: ModuleType) -> None:
    text = make_chart.README.read_text()
    assert text == make_chart.readme_text(text), FIX


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, below in cast("dict[str, Any]", value).items():
            yield from _leaves(below, f"{path}.{name}".lstrip("."))
    else:
        yield path


def test_every_value_is_described_once_with_its_default(make_chart: ModuleType) -> None:
    described = make_chart.described_values((FOLDER / "values.yaml").read_text())
    names = [value.path for value in described]
    assert len(names) == len(set(names))
    leaves = set(_leaves(yaml.safe_load((FOLDER / "values.yaml").read_text())))
    assert {leaf for leaf in leaves if not any(f"{leaf}.".startswith(f"{name}.") for name in names)} == set()
    for value in described:
        assert value.about.endswith(".")
        assert f"| `{value.path}` |" in make_chart.README.read_text()


def test_a_value_with_a_bar_in_it_does_not_break_the_table(make_chart: ModuleType) -> None:
    assert make_chart.Value("a", "x", "this | that").row() == r'| `a` | this \| that | `"x"` |'
