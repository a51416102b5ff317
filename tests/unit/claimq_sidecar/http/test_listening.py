"""The app's socket: permissions, directory, what is in the way."""

import socket
from pathlib import Path

import pytest

from claimq_sidecar.http.listening import CannotListen, identity, open_app_socket, remove_app_socket


def test_the_directory_is_made_and_the_permissions_hold_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with open_app_socket(path, 0o600):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o770


def test_a_directory_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with open_app_socket(tmp_path / "s", 0o660):
        assert tmp_path.stat().st_mode & 0o777 == 0o750


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    open_app_socket(path, 0o660).close()
    assert path.exists()
    with open_app_socket(path, 0o660), pytest.raises(CannotListen, match="another process serves"):
        open_app_socket(path, 0o660)


def test_a_live_socket_with_a_full_queue_is_not_taken_for_stale(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(CannotListen, match="another process serves"):
            open_app_socket(path, 0o660)


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotListen, match="mount a writable directory or set CLAIMQ_SOCKET"):
        open_app_socket(tmp_path / "file" / "s", 0o660)


def test_only_the_own_socket_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_app_socket(path, 0o660):
        made = identity(path)
        path.unlink()
        path.write_text("another's")
        remove_app_socket(path, made)
        assert path.exists()
        remove_app_socket(path, identity(path))
        assert not path.exists()
        remove_app_socket(tmp_path / "gone" / "s", made)
