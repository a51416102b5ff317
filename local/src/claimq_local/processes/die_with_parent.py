"""Runs a program that the kernel kills when its parent process ends, even by SIGKILL.

Usage: die_with_parent.py PARENT-PID PROGRAM ARGUMENT... It replaces itself with the program: same process id, same
process group. It is a separate program because code between fork and exec is not safe in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_START = 127


def wrapper() -> list[str]:
    """The words to put before a program, so that it ends with the calling process."""
    return [sys.executable, "-ISs", __file__, str(os.getpid())]


def main() -> None:
    """Requests the signal, checks that the parent still exists, and executes the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the process that started it is already gone")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the manifest names the program
    except OSError as error:
        sys.stderr.write(f"cannot start {sys.argv[2]}: {error.strerror}; correct the command or its PATH\n")
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main()
