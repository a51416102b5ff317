"""`helm test`: an item goes into a queue of the release, through a worker pod that the operator starts, and is done."""

import os
import sys
import time

import claimq
import claimq.blocking

ITEM = "from helm test"
PAUSE_SECONDS = 0.5


def main() -> int:
    """0 when the item was done in time; else 1, and the log says how far it came."""
    patience = float(os.environ["TIMEOUT"].removesuffix("s"))
    start = time.monotonic()
    settings = claimq.RedisSettings(os.environ["REDIS_URL"], namespace=os.environ["NAMESPACE"])
    with claimq.blocking.connect(settings=settings) as server:
        queue = server.queue(os.environ["QUEUE"])
        done_before = queue.snapshot().counters.get("done", 0)
        queue.enqueue(ITEM)
        print(f"enqueued an item in {queue.name}", flush=True)
        while True:
            seen = queue.snapshot()
            if seen.counters.get("done", 0) > done_before:
                print(f"a worker has done it, after {time.monotonic() - start:.1f} s")
                return 0
            if time.monotonic() - start >= patience:
                break
            time.sleep(PAUSE_SECONDS)
        lengths = ", ".join(f"{state.value} {count}" for state, count in seen.lengths.items())
        name = queue.name.partition(".")[2]
        print(f"not done after {patience:.0f} s ({lengths}); look at: kubectl describe reliablequeue {name}")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except claimq.ClaimqError as error:
        sys.exit(f"{error}; see the pods and volumes of the server: kubectl get pods,pvc")
