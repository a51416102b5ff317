"""Runs a program that the kernel kills as soon as the one who started it is gone, also when by SIGKILL.

Usage: die_with_parent.py PARENT-PID PROGRAM ARGUMENT... Replaces itself by the program (same process id). A program
of its own, since code between fork and exec is not safe in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Asks for the signal, and makes sure that it was not already too late."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the parent is already gone")


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
