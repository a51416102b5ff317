"""Ports of the tests' servers."""

import os
import subprocess
import sys

from testkit.programs.ports import free_port

OTHER = "from testkit.programs.ports import free_port; print(*(free_port() for _ in range(60)))"


def test_processes_of_one_name_have_ports_of_their_own_and_no_port_comes_twice() -> None:
    """The tests on Kubernetes and the others run beside each other, and their processes have the same names."""
    mine = [free_port() for _ in range(60)]
    others = subprocess.run(
        [sys.executable, "-c", OTHER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len({*mine, *map(int, others)}) == 120
