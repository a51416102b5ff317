"""What an image is built from, as one hash: the same hash is the same image, and nothing needs to be built."""

import hashlib
from collections.abc import Iterator
from pathlib import Path


def digest(dockerfile: Path, context: Path, *more: str) -> str | None:
    """The Dockerfile, each file below `context` that one of its stages copies, and `more`. None when its lines do not
    name the files that it copies."""
    text = dockerfile.read_text()
    ignored = context / ".dockerignore"
    more = (*more, ignored.read_text() if ignored.exists() else "")
    whole = hashlib.sha256("\0".join([text, *more]).encode())
    for source in copied(text):
        if "$" in source or "://" in source:
            return None
        for path in sorted(_files(context, source)):
            content = path.read_bytes()
            head = f"\n{path.relative_to(context)} {path.stat().st_mode:o} {len(content)}\n"
            whole.update(head.encode() + content)
    return whole.hexdigest()[:20]


def copied(dockerfile: str) -> list[str]:
    """What its stages copy from the context."""
    sources: list[str] = []
    for line in dockerfile.replace("\\\n", " ").splitlines():
        words = line.split()
        if words and words[0].upper() in ("COPY", "ADD") and not any(w.startswith("--from=") for w in words):
            sources += [word for word in words[1:-1] if not word.startswith("--")]
    return sources


def _files(context: Path, source: str) -> Iterator[Path]:
    for found in context.glob(source.strip("/")):
        for path in found.rglob("*") if found.is_dir() else (found,):
            # Python's caches come and go, and no image has those of the context.
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
