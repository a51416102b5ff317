"""The FIFOs that a killed sidecar leaves behind."""

import os
from pathlib import Path

from claimq.consuming.engine.permits import remove_stale


def test_only_fifos_of_sessions_are_removed(tmp_path: Path) -> None:
    for name in ("s.0123456789abcdef", "s.other"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "s.fedcba9876543210").touch()
    remove_stale(tmp_path / "s")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.fedcba9876543210", "s.other"]


def test_a_fifo_that_cannot_be_removed_stops_no_sidecar(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "s.0123456789abcdef")
    tmp_path.chmod(0o555)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(tmp_path)
            if os.geteuid() == 0:
                os.setuid(65534)  # root may remove it
            remove_stale(Path("s"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "s.0123456789abcdef").exists()
    tmp_path.chmod(0o755)
