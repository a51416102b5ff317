"""The program of the page of a cluster, where no cluster is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from claimq_admin.errors import UNAVAILABLE, USAGE
from testkit.waiting import PATIENCE


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), UNAVAILABLE, "claimq-web: no access to a cluster: the process has no service account of a pod"),
        (("--listen=nonsense",), USAGE, "claimq-web: the web page cannot listen on 'nonsense'"),
        (("--trust-proxy=here",), USAGE, "claimq-web: --trust-proxy here: 'here' does not appear to be"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "claimq_web", "--listen=127.0.0.1:0", *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (code, "")
    *_, line = done.stderr.splitlines()  # the client of Kubernetes has a line of its own
    assert line.startswith(message)
