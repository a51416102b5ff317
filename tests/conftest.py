"""What holds for all tiers: how hypothesis searches."""

import os

import hypothesis

hypothesis.settings.register_profile(
    "claimq",
    deadline=None,  # real servers on a busy machine
    print_blob=True,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},  # a red build can be repeated
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("claimq")
