"""Skips clusterkit's own tests while it is unchanged since they passed, but for the smoke test."""

from pathlib import Path

import pytest

from clusterkit import proven
from testkit import tiers

UNCHANGED = f"clusterkit is unchanged since its tests passed here; {proven.ALWAYS}=all runs them"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "smoke: runs also while clusterkit is unchanged since its tests passed"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not proven.is_proven():
        return
    for item in items:
        is_ours = Path(item.path).is_relative_to(Path(__file__).parent)
        if is_ours and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.skip(reason=f"{tiers.UNCHANGED}{UNCHANGED}"))
