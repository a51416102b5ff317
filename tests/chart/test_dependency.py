"""The chart as a dependency of another one."""

import shutil
from pathlib import Path

import pytest
import yaml

from testkit.repository.chart import FOLDER, Chart


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A chart that depends on ours under a condition."""
    dependency = {"name": "claimq", "version": ">=0.0.0-0", "condition": "claimq.enabled"}
    body = {"apiVersion": "v2", "name": "shop", "version": "1.0.0", "dependencies": [dependency]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(body))
    shutil.copytree(FOLDER, tmp_path / "charts" / "claimq")
    return tmp_path


def kinds(chart: Chart, parent: Path, *values: str) -> set[str]:
    said = chart.run("template", "shop", parent, *(f"--set={one}" for one in values))
    assert said.returncode == 0, said.stderr
    return {one["kind"] for one in yaml.safe_load_all(said.stdout) if one}


def test_a_parent_chart_turns_the_dependency_on_and_off(chart: Chart, parent: Path) -> None:
    assert {"Deployment", "CustomResourceDefinition"} <= kinds(chart, parent, "claimq.enabled=true")
    assert kinds(chart, parent, "claimq.enabled=false") == set()
    assert "CustomResourceDefinition" not in kinds(
        chart, parent, "claimq.enabled=true", "claimq.crds.install=false"
    )


def test_the_value_of_the_condition_is_refused_where_it_does_nothing(chart: Chart) -> None:
    assert "only read by a parent chart" in chart.template("enabled=false").stderr
    assert chart.template("enabled=true").returncode == 0
