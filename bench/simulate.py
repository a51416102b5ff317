"""A queue, its workers and its autoscaler in simulation, as `make simulate` runs them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claimq_bench.simulation.command import simulate_command

if __name__ == "__main__":
    simulate_command()
