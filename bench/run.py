"""The benchmarks, as `make bench` runs them: a table on the terminal and, with --json FILE, one flat JSON object.

Exits with 1 when a result is wrong (an item lost, repeated or left over), never because a figure is slow.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests" / "support")]

from claimq_bench.program import main  # noqa: E402 - its place has just been put on the path

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
