"""Images of a single static program, written without any image tool: an archive as `docker save` would make it."""

import hashlib
import io
import json
import platform
import tarfile
from contextlib import suppress
from pathlib import Path

_KEPT = 2
"""Archives of a name: another run may be about to load the one that it has built."""
_UNUSED_SECONDS = 3 * 24 * 3600.0
"""Names come with branches and tags, and go without a word: each keeps a gigabyte."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """This machine's, as images call it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def program_image(program: Path, tag: str, result: Path) -> Path:
    """Write the archive `result`: an image called `tag` that is nothing but `program`, started as user 65532."""
    layer = _tar({program.name: (program.read_bytes(), 0o755)})
    config = json.dumps(
        {
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Entrypoint": [f"/{program.name}"], "User": "65532:65532", "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created": "1970-01-01T00:00:00Z"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
    files = {"manifest.json": (manifest, 0o644), config_name: (config, 0o644), "layer.tar": (layer, 0o644)}
    result.write_bytes(_tar(files))
    return result


def forget_archives(folder: Path, *, now: float) -> None:
    """Removes all but the newest few archives of `folder`, which is one name's, and those of names beside it that were
    loaded last some days before `now`, in Unix seconds; with each its note (*.built) of what it was built from."""
    for beside in folder.parent.iterdir():
        by_age = sorted((at, file) for file in beside.glob("*.tar") if (at := _written_at(file)) is not None)
        kept = _KEPT if by_age and now - by_age[-1][0] < _UNUSED_SECONDS else 0
        for _, old in by_age if kept == 0 else by_age[:-kept]:
            old.unlink(missing_ok=True)
        for note in beside.glob("*.built"):
            if not (beside / note.read_text()).exists():
                note.unlink(missing_ok=True)
        if beside.is_dir() and beside != folder:
            with suppress(OSError):  # another run has begun to write into it
                beside.rmdir()


def _written_at(file: Path) -> float | None:
    """In Unix seconds; None when another run has removed it."""
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    """The same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
