"""Imports a recording, exports it again to a new server, and lets the library work on what was written.

Usage: python tests/recordings/read_back.py NAME COMMAND [ARG...]; see README.md.
"""

import subprocess
import sys

from testkit.recordings import replay
from testkit.server import Server

EXPORT = ("--state", "main", "--state", "delayed", "--job-name", "shop.send_mail")


def main(name: str, command: list[str]) -> None:
    """Runs the command with the new server's HOST:PORT at its end."""

    def claimq(url: str, *words: str) -> None:
        subprocess.run([sys.executable, "-m", "claimq_cli", *words, "--redis", url], check=True)

    with Server("valkey", tcp=True) as old, Server("valkey", tcp=True) as new:
        for server in (old, new):
            server.start()
        replay(old, name)
        source = f"{name}:mails"
        claimq(old.tcp_url, "import", "q", "--from", source)
        claimq(old.tcp_url, "enqueue", "q", "text, which is no job", "--id", "order:17")
        options = EXPORT if name in ("rq", "bullmq") else EXPORT[:-2]
        claimq(old.tcp_url, "export", "q", "--to", source, "--target", new.tcp_url, *options)
        subprocess.run([*command, f"127.0.0.1:{new.port}"], check=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
