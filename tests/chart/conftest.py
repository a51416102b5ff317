"""The chart, rendered by helm: no cluster is asked."""

import pytest

from clusterkit import HarnessError
from testkit import tiers
from testkit.repository.chart import Chart


@pytest.fixture(scope="session")
def chart() -> Chart:
    """The chart of this repository."""
    try:
        return Chart()
    except HarnessError as error:
        tiers.skip_missing(error)
