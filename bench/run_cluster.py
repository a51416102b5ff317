"""The benchmarks on a real Kubernetes, as `make bench-cluster` runs them: a table, and with --json FILE flat JSON.

Exits with 1 when a result is wrong (an item lost, failed or repeated without a reason), with 2 when something could not
be measured, never because a figure is slow.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
sys.path[:0] = [str(HERE), str(TESTS / "support"), str(TESTS / "cluster" / "harness" / "src")]

from claimq_bench.on_cluster.program import main  # noqa: E402 - its place has just been put on the path

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
