"""What holds for all tiers: how long a test may take, and how hypothesis searches."""

import os
from pathlib import Path

import hypothesis
import pytest

# A tier's tests may take so many seconds each; pyproject.toml says it for the others.
SLOW_TIERS = {"property": 600, "kill": 600}
HERE = Path(__file__).parent

hypothesis.settings.register_profile(
    "claimq",
    deadline=None,  # real servers on a busy machine
    print_blob=True,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},  # a red build can be repeated
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("claimq")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests of slow tiers more time, unless they ask for their own."""
    for item in items:
        tier = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        if tier in SLOW_TIERS and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIERS[tier]))
