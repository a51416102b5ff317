"""Certificates as files: limits for each namespace, and a full disk affects no other queue."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from claimq_process.certificates import MAX_BYTES, NAMESPACE_BYTES, CertificateRejected, Certificates
from testkit.waiting import PATIENCE

CA = MAX_BYTES["ca.crt"]


@pytest.mark.parametrize("name", MAX_BYTES)
def test_a_file_has_a_maximum_size(tmp_path: Path, name: str) -> None:
    store = Certificates(tmp_path)
    assert store.paths({name: b"x" * MAX_BYTES[name]}, (), "media")
    with pytest.raises(CertificateRejected, match=rf"{name}.* has {MAX_BYTES[name] + 1} bytes") as caught:
        store.paths({name: b"x" * (MAX_BYTES[name] + 1)}, (), "media")
    assert caught.value.reason == "CertificateTooLarge"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_queues_of_a_namespace_share_a_quota_and_equal_files(tmp_path: Path) -> None:
    store, used = Certificates(tmp_path), set[str]()
    for number in range(NAMESPACE_BYTES // CA):
        used |= set(store.paths({"ca.crt": b"%d" % number + b"x" * (CA - 1)}, used, "media").values())
    assert store.paths({"ca.crt": b"0" + b"x" * (CA - 1)}, used, "media")["ca.crt"] in used
    with pytest.raises(CertificateRejected, match=r"namespace media.*1Mi"):
        store.paths({"ca.crt": b"one more"}, used, "media")
    assert store.paths({"ca.crt": b"one more"}, (), "print")


def stored_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_namespaces_with_much_leave_room_for_small_certificates_of_all_others(tmp_path: Path) -> None:
    """The volume in the operator's pod has 16 MiB. A tenant may have many namespaces."""
    store, problems, first = Certificates(tmp_path), set[str](), dict[str, str]()
    for space in range(40):
        used = set[str]()
        for number in range(NAMESPACE_BYTES // CA):
            content = b"%d %d" % (space, number)
            try:
                found = store.paths({"ca.crt": content.ljust(CA)}, used, f"eve-{space}")
            except CertificateRejected as error:
                problems.add(f"{error.reason}: {error}")
            else:
                used |= set(found.values())
                first = first or found
    assert [one for one in problems if "namespace eve-39 " in one and "64Ki" in one]
    assert all(one.startswith("CertificateTooLarge: ") for one in problems)
    for space in range(100):
        content = b"of %d" % space
        assert store.paths({"ca.crt": content.ljust(64 * 1024)}, (), f"tenant-{space}")
    assert stored_bytes(tmp_path) < 15 * 1024 * 1024
    # What a queue has stays, although it is read again.
    assert store.paths({"ca.crt": b"0 0".ljust(CA)}, (), "eve-0") == first
    assert store.paths({"ca.crt": b"renewed".ljust(CA)}, (), "eve-0", list(first.values())) != first
    with pytest.raises(CertificateRejected, match="namespace eve-0 "):
        store.paths({"ca.crt": b"renewed again".ljust(CA)}, (), "eve-0")


def test_other_entries_of_a_secret_are_not_stored(tmp_path: Path) -> None:
    assert Certificates(tmp_path).paths({"url": b"redis://redis", "password": b"x"}, (), "media") == {}
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_reported_and_gets_no_partial_file(tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    with pytest.raises(CertificateRejected, match=os.strerror(2)) as caught:
        Certificates(missing).paths({"ca.crt": b"x"}, (), "media")
    assert caught.value.reason == "CertificateNotStored"


def test_sweeping_keeps_what_is_used(tmp_path: Path) -> None:
    store = Certificates(tmp_path)
    kept = store.paths({"ca.crt": b"a"}, (), "media")["ca.crt"]
    store.paths({"ca.crt": b"b"}, (), "media")
    store.sweep({kept, None})
    assert [str(path) for path in tmp_path.iterdir()] == [kept]


_ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from claimq_process.certificates import Certificates, CertificateRejected
directory = Path(sys.argv[1])
store = Certificates(directory)
kept = store.paths({"ca.crt": b"of another queue"}, (), "print")["ca.crt"]
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.paths({"ca.crt": b"x" * 60_000}, (), "media")
except CertificateRejected as error:
    print(error.reason)
print([str(path) for path in directory.iterdir()] == [kept])
print(Path(store.paths({"ca.crt": b"small"}, (), "print")["ca.crt"]).read_text())
"""


def test_a_partly_written_file_is_removed_and_others_are_kept(tmp_path: Path) -> None:
    """A limit of the kernel interrupts the write, like a full file system."""
    done = subprocess.run(
        [sys.executable, "-c", _ON_A_FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.split() == ["CertificateNotStored", "True", "small"]


_HOLDS_A_DIRECTORY = """
import sys
from claimq_process.certificates import Certificates, certificate_directory
with certificate_directory() as directory:
    Certificates(directory).paths({"tls.key": b"a key"}, (), "media")
    print(directory, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(temporary: Path) -> Generator[tuple[subprocess.Popen[str], Path]]:
    """A process with a directory for certificates, and the directory."""
    command, env = [sys.executable, "-c", _HOLDS_A_DIRECTORY], {**os.environ, "TMPDIR": str(temporary)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env) as process:
        assert process.stdout
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_directories_of_killed_processes_are_deleted_at_the_next_start(tmp_path: Path) -> None:
    """A pod's volume outlives its containers: keys would stay there, and fill it after some kills."""
    (tmp_path / "claimq-certificates-of-no-process").symlink_to(tmp_path.parent)
    with holder(tmp_path) as (killed, left), holder(tmp_path) as (_, other):
        killed.kill()
        killed.wait(PATIENCE)
        assert [path.read_bytes() for path in left.iterdir()] == [b"a key"]
        with holder(tmp_path) as (ended, own):
            assert {path for path in tmp_path.iterdir() if not path.is_symlink()} == {other, own}
            assert len(list(other.iterdir())) == 1
            assert own.stat().st_mode & 0o777 == 0o700
            ended.communicate("", PATIENCE)
        assert not own.exists()
    assert tmp_path.parent.exists()
