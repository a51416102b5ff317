"""The app's socket: permissions, directory, what is in the way."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from claimq_sidecar.http.connection.listening import CannotListen, open_app_socket, open_early


def test_the_directory_is_made_and_the_permissions_hold_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with closing(open_app_socket(path, 0o600)):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o770


def test_a_directory_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with closing(open_app_socket(tmp_path / "s", 0o660)):
        assert tmp_path.stat().st_mode & 0o777 == 0o750


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    open_app_socket(path, 0o660).listening.close()
    assert path.exists()
    with closing(open_app_socket(path, 0o660)), pytest.raises(CannotListen, match="another process serves"):
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
    path = tmp_path / "run" / "s"
    replaced, own = open_app_socket(path, 0o660), tmp_path / "run" / "moved"
    path.rename(own)
    path.write_text("another's")
    replaced.close()
    assert path.exists()
    path.unlink()
    kept = open_app_socket(path, 0o660)
    kept.close()
    assert not path.exists()
    own.unlink()
    path.parent.rmdir()
    kept.close()


def test_an_app_can_connect_before_the_settings_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    opened = open_early({"CLAIMQ_SOCKET": str(path), "CLAIMQ_SOCKET_MODE": "0600"})
    assert opened is not None
    with closing(opened), socket.socket(socket.AF_UNIX) as app:
        app.connect(str(path))
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "variables", [{"CLAIMQ_SOCKET": "run/s"}, {"CLAIMQ_SOCKET_MODE": "rw"}, {"CLAIMQ_SOCKET": "/proc/no/s"}]
)
def test_what_is_wrong_with_the_socket_is_left_to_the_settings(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_early({"CLAIMQ_SOCKET": str(tmp_path / "s"), **variables}) is None
    assert not any(tmp_path.iterdir())
