"""How the command starts."""

import subprocess
import sys

INTERRUPTED_AT_AN_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from claimq_cli.__main__ import main
main(["queues"])
"""


def test_ctrl_c_while_the_command_starts_leaves_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
