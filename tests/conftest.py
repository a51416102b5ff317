"""What holds for all tiers: programs' environment, how hypothesis searches, what the garbage collector skips."""

import gc
import os

import hypothesis
import pytest

# As the Makefile does, so that a test that pytest runs by itself starts its programs in the same environment.
os.environ["PYTHONSAFEPATH"] = "1"
os.environ.pop("PYTHONUNBUFFERED", None)

# Importing the tests makes some 400,000 objects that stay. To search them for garbage takes a third of a second of
# processor time, which on a busy machine stops a test for longer than its timeouts.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """From here on, the garbage collector skips all objects that exist."""
    gc.collect()
    gc.freeze()
    gc.enable()


hypothesis.settings.register_profile(
    "claimq",
    deadline=None,  # real servers on a busy machine
    print_blob=True,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},  # a red build can be repeated
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("claimq")
