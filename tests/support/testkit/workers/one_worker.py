"""A queue of five items with one worker, and a lease that outlasts the test: what comes back during it comes back
because its end was noticed."""

LEASE = "5m"
ONE = {"minReplicas": 1, "maxReplicas": 1}
TEXTS = [f"item-{number}" for number in range(5)]
"""The payloads of ``queue.enqueue(5)``, as ``queue.open`` wants them."""
