"""Ready workers beside the number that is wanted."""

import pytest

from claimq_control.worker_counts import ready_summary, ready_text


@pytest.mark.parametrize(
    ("ready", "wanted", "text", "summary"),
    [
        (0, 0, "0 of 0 workers are ready", "0/0"),
        (2, 3, "2 of 3 workers are ready", "2/3"),
        (3, 3, "3 of 3 workers are ready", "3/3"),
        (3, 2, "3 workers are ready, 1 more than the 2 wanted", "2/2 +1"),
        (1, 0, "1 worker is ready, 1 more than the 0 wanted", "0/0 +1"),
        (1500, 1000, "1,500 workers are ready, 500 more than the 1,000 wanted", "1000/1000 +500"),
    ],
)
def test_there_are_never_more_of_fewer(ready: int, wanted: int, text: str, summary: str) -> None:
    assert (ready_text(ready, wanted), ready_summary(ready, wanted)) == (text, summary)
