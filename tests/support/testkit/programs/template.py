"""A program that has imported another program and starts it by a fork, without the time that its imports take.

Usage: template.py PROGRAM MODULE,MODULE SOCKET. Imports the modules and listens on SOCKET. For each connection it
runs PROGRAM as `python -m` does, in a process of its own, and sends its process id, and its exit code when it has
ended. The program ends with the process that keeps it, that one with this one, and this one with the tests.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from pathlib import Path

from testkit.programs.die_with_parent import die_with


def main(program: str, modules: str, path: Path) -> None:
    """Serves until it is killed. Returns in no process; what a program raises ends its process."""
    for module in modules.split(","):
        importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes keepers that have ended
    own_id = os.getpid()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen(100)
        Path(f"{path}.new").rename(path)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    die_with(own_id)
    keep(program, connection)


def keep(program: str, connection: socket.socket) -> None:
    """Starts the program that the connection asks for, and reports its process id and its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    own_id = os.getpid()
    with connection.makefile("r") as lines:
        wanted = json.loads(lines.readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        die_with(own_id)
        become(program, **wanted)
    try:
        connection.sendall(b"%d\n" % pid)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    except OSError:
        os._exit(0)  # nothing waits for it any more


def become(program: str, arguments: list[str], env: dict[str, str], cwd: str, log: str, errors: str) -> None:
    """Runs the program in this process."""
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for number, (path, mode) in enumerate(((os.devnull, os.O_RDONLY), (log, append), (errors, append))):
        opened = os.open(path, mode, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv[1:] = arguments
    runpy.run_module(program, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
