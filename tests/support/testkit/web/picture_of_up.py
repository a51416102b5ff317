"""Runs the queue of a directory as `claimq up` does, enqueues items, and writes what it then shows as an HTML page."""

import asyncio
import io
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from claimq.model import State
from claimq_cli.commands.checking.manifest_files import load_manifests
from claimq_local.local_mode import LocalMode, Options
from claimq_local.screen.board import Board
from claimq_local.screen.display import frame
from testkit.waiting import eventually

_WIDTH, _HEIGHT = 110, 30
_PAGE = """<meta charset="utf-8"><style>{stylesheet} body {{margin: 0; background: {background}; color: {foreground};}}
pre {{margin: 0; padding: 12px; font: 14px/1.2 "DejaVu Sans Mono", monospace; display: inline-block;}}</style>
<body><pre>{code}</pre></body>"""


async def main(folder: Path, page: Path) -> None:
    """``folder`` has the manifest `queue.yaml`."""
    board = Board(title="queue.yaml")
    mode = LocalMode(Options(load_manifests(folder / "queue.yaml"), folder, folder / ".claimq"), board)
    running = asyncio.create_task(mode.run())
    await mode.started.wait()
    (runner,) = mode.runners
    board.server = "embedded Valkey, data in .claimq/valkey"  # without the place of this run
    await runner.platform.queue.enqueue_many([f"photo-{number}.jpg" for number in range(1, 41)])

    def shows_every_state() -> bool:
        seen = runner.board.snapshot
        return bool(seen and runner.board.ready > 1 and seen.lengths[State.FAILED] and runner.board.done > 5)

    await eventually(shows_every_state)
    console = Console(record=True, width=_WIDTH, height=_HEIGHT, file=io.StringIO(), force_terminal=True)
    console.print(frame(board, _HEIGHT, _WIDTH))
    page.write_text(console.export_html(theme=MONOKAI, code_format=_PAGE))
    mode.stop()
    await running


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
