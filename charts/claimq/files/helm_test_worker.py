"""The worker of `helm test`: every item is done at once."""

import claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            print("working on", item.text, flush=True)
