"""The fault table, as `make faults` runs it: servers, faults and durabilities, with every item accounted for by its id.

Exits with 1 when a promise of docs/guarantees.md is broken.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests" / "support")]

from claimq_faults.program import main  # noqa: E402 - its place has just been put on the path

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
