"""Replaces the workers of local mode when files change, and follows changes of the manifest."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claimq.errors import ClaimqError
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.text import count
from claimq_control.manifest import Manifest
from claimq_local.queue_runner import QueueRunner

if TYPE_CHECKING:
    from watchfiles import Change

_DEBOUNCE_MS = 300
_MOST_NAMED = 3
_ROOM_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched. ``paths``: files, and directories with all that is in them. ``manifest``: None for stdin;
    ``read`` reads it again, and raises CommandError or InvalidSpec.
    """

    paths: tuple[Path, ...]
    manifest: Path | None
    read: Callable[[], Sequence[Manifest]]


def check_reload() -> None:
    """Raises CommandError if the package that watches files is not installed."""
    if importlib.util.find_spec("watchfiles") is None:
        raise CommandError("--reload needs the package watchfiles: pip install watchfiles", USAGE)


class Reloader:
    """Replaces workers one by one: the new one starts at once, and the old one ends after its items."""

    def __init__(
        self,
        watched: Watched,
        runners: Sequence[QueueRunner],
        note: Callable[..., None],
        url_of: Callable[[Manifest], str],
    ) -> None:
        """``note``: shows a line. ``url_of``: the server of a manifest."""
        self._watched = watched
        self._runners = {runner.board.name: runner for runner in runners}
        self._note = note
        self._url_of = url_of

    async def run(self, ignored: Path, stop: asyncio.Event) -> None:
        """Watches until ``stop`` is set, but for the directory ``ignored``. Raises CommandError if it cannot."""
        # An optional package.
        from watchfiles import DefaultFilter, awatch  # pyright: ignore[reportUnknownVariableType]  # types of trio

        directories = [path for path in self._watched.paths if path.is_dir()]
        files = {path for path in self._watched.paths if not path.is_dir()}
        if self._watched.manifest is not None:
            files.add(self._watched.manifest)
        # A file that an editor replaces is another file with the same name: its directory is watched.
        parents = {path.parent for path in files}
        options: dict[str, Any] = {"debounce": _DEBOUNCE_MS, "stop_event": stop, "raise_interrupt": False}
        single = awatch(
            *parents, watch_filter=lambda _, path: Path(path) in files, recursive=False, **options
        )
        trees = awatch(*directories, watch_filter=DefaultFilter(ignore_paths=[ignored]), **options)
        try:
            async with asyncio.TaskGroup() as group:
                for changes in [single] * bool(parents) + [trees] * bool(directories):
                    group.create_task(self._follow(changes))
                await asyncio.sleep(0)  # both watch now
                self._note(f"watching {', '.join(map(str, self._watched.paths))}")
        except* OSError as group_of_errors:
            error = group_of_errors.exceptions[0]
            raise CommandError(f"the files of --reload cannot be watched: {error}", USAGE) from error

    async def _follow(self, changes: AsyncIterable[set[tuple[Change, str]]]) -> None:
        async for batch in changes:
            await self.changed({Path(path) for _, path in batch})

    async def changed(self, files: set[Path]) -> None:
        """Uses the manifest as it is now, if it has changed, and replaces all workers. An invalid manifest changes
        nothing."""
        names = sorted({file.name for file in files})
        names_text = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        try:
            if self._watched.manifest in files:
                await self._use(self._watched.read())
        except (ClaimqError, CommandError) as error:
            self._note(f"{names_text} changed, and is not used: {error}", is_trouble=True)
            return
        await self._room(names_text)
        replaced = sum(runner.replace_workers() for runner in self._runners.values())
        self._note(f"{names_text} changed: replacing {count(replaced, 'worker')}")

    async def _room(self, names_text: str) -> None:
        """Waits while many earlier workers still finish their items: each change starts as many processes again. What
        changes in between is the next change."""
        is_waiting = False
        while not all(runner.has_room_for_replacements for runner in self._runners.values()):
            if not is_waiting:
                self._note(f"{names_text} changed: waiting for earlier workers to finish their items")
            is_waiting = True
            await asyncio.sleep(_ROOM_SECONDS)

    async def _use(self, manifests: Sequence[Manifest]) -> None:
        by_name = {manifest.spec.queue_name: manifest for manifest in manifests}
        same = by_name.keys() == self._runners.keys() and all(
            self._url_of(manifest) == self._runners[name].url for name, manifest in by_name.items()
        )
        if not same:
            raise CommandError("it names other queues or servers; stop `claimq up` and start it again", USAGE)
        for name, manifest in by_name.items():
            await self._runners[name].use(manifest)
