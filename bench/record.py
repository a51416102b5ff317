"""Records the arrivals of a queue, as `make record` runs it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claimq_bench.recorder import record

if __name__ == "__main__":
    record()
