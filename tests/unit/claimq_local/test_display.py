"""What local mode shows."""

import asyncio
import io

import pytest
from rich.console import Console

from claimq.model import Snapshot, State
from claimq_control.scaling import Decision, ScalingRule, ScalingState
from claimq_local.screen.board import Board, QueueBoard, WorkerRow
from claimq_local.screen.display import frame, shown, status_line, steady_state


def snapshot(now: float, done: int, main: int = 1200) -> Snapshot:
    lengths = {State.MAIN: main, State.BUSY: 40, State.DELAYED: 2, State.FAILED: 3}
    ages: dict[State, float | None] = dict.fromkeys(State, 2.5)
    return Snapshot(now, 1, lengths, ages, {"enqueued": done, "done": done}, None, paused=False)


def a_board(workers: int = 2) -> Board:
    queue = QueueBoard("thumbs", max_replicas=4)
    queue.see(snapshot(100.0, 50))
    queue.see(snapshot(102.0, 250))
    queue.decide(Decision(4, ScalingRule.MAX_REPLICAS, "1242 items waiting", ScalingState()), before=2)
    stages = ["ready", "starting"] * workers
    queue.show_workers(tuple(WorkerRow(f"thumbs-{n}", stages[n], n, 1, 10 + n, None) for n in range(workers)))
    board = Board("queue.yaml", "Valkey of its own", {"thumbs": queue})
    board.note("thumbs: 2 -> 4 workers [MaxReplicas]")
    return board


def drawn(board: Board, width: int, height: int) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(frame(board, height, width))
    return captured.get()


def test_a_frame_shows_queues_workers_decisions_and_what_happened() -> None:
    text = drawn(a_board(), 120, 40)
    for words in (
        "1,200",
        "40",
        "2.5 s",
        "250",
        "1 of 4",
        "thumbs-1",
        "pid 10",
        "MaxReplicas",
        "1242 items waiting",
    ):
        assert words in text
    assert "thumbs: 2 -> 4 workers [MaxReplicas]" in text, "brackets are text, not markup"


def test_a_frame_fits_the_terminal() -> None:
    for width, height in ((80, 24), (60, 30), (200, 50)):
        lines = drawn(a_board(workers=30), width, height).splitlines()
        assert len(lines) <= height
        assert max(map(len, lines)) <= width


def test_a_queue_whose_server_is_away_says_so() -> None:
    board = a_board()
    board.queues["thumbs"].see(None, "no answer from the server")
    assert "no answer from the server" in drawn(board, 120, 40)
    assert status_line(board.queues["thumbs"]) == "thumbs: no answer from the server"


def test_a_line_shows_all_states() -> None:
    assert status_line(a_board().queues["thumbs"]) == (
        "thumbs: main 1,200  busy 40  delayed 2  failed 3  oldest 2.5 s  done 250 (100/s)  1 of 2 workers ready"
    )


def test_an_age_or_a_rate_alone_is_no_new_line() -> None:
    queue = QueueBoard("q", 1)
    queue.see(snapshot(100.0, 50))
    before, line = steady_state(queue), status_line(queue)
    later = snapshot(101.0, 50)
    later.ages[State.MAIN] = 3.5
    queue.see(later)
    assert (steady_state(queue), status_line(queue) == line) == (before, False)
    queue.see(snapshot(102.0, 51))
    assert steady_state(queue) != before


@pytest.mark.parametrize(("height", "end"), [(40, "thumbs-9"), (24, "to their end")])
def test_the_end_of_a_condition_is_shown_or_where_to_read_it(height: int, end: str) -> None:
    board = a_board()
    message = f"no progress: {'items wait; ' * 40} drain thumbs thumbs-9"
    board.queues["thumbs"].conditions = [
        {"type": "Progressing", "status": "False", "reason": "NoProgress", "message": message}
    ]
    text = drawn(board, 80, height)
    assert "no progress: items wait" in text
    assert end in text
    assert len(text.splitlines()) <= height


def test_the_rate_is_that_of_the_last_seconds() -> None:
    queue = QueueBoard("q", 1)
    assert queue.rate == 0.0
    for now, done in ((0.0, 0), (10.0, 5000), (12.0, 5020)):
        queue.see(snapshot(now, done))
    assert queue.rate == 10.0


def test_after_a_loss_of_data_the_rate_starts_over() -> None:
    queue = QueueBoard("q", 1)
    for now, done in ((0.0, 5000), (1.0, 0), (2.0, 30)):
        queue.see(snapshot(now, done))
    assert queue.rate == 30.0


def test_only_decisions_that_change_something_are_kept() -> None:
    queue = QueueBoard("q", 9)
    for wanted in (1, 1, 2, None, 2):
        queue.decide(Decision(wanted, ScalingRule.WORK_LEFT, "why", ScalingState()), before=1)
    assert [row.replicas for row in queue.decisions] == [2, 2]
    assert queue.decision is not None


async def test_without_a_terminal_every_line_is_printed_once() -> None:
    out = io.StringIO()
    board = Board()
    board.note("early [bold]")
    async with shown(board, Console(file=out, force_terminal=False)):
        await asyncio.sleep(0)
        board.note("late")
    assert [line.split(" ", 1)[1] for line in out.getvalue().splitlines()] == ["early [bold]", "late"]


async def test_on_a_terminal_the_last_frame_stays() -> None:
    out = io.StringIO()
    board = a_board()
    async with shown(
        board, Console(file=out, force_terminal=True, width=100, height=40, _environ={"TERM": "xterm"})
    ):
        await asyncio.sleep(0)
        board.note("the very last")
    assert "the very last" in out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_number_and_no_name_is_cut_at_any_width(width: int) -> None:
    board = a_board()
    queue = board.queues["thumbs"]
    queue.name = "thumbnails-of-the-big-archive"
    lengths = {State.MAIN: 1_234_567, State.BUSY: 3000, State.DELAYED: 45_678, State.FAILED: 9_876_543}
    ages: dict[State, float | None] = dict.fromkeys(State, 9.5)
    queue.see(
        Snapshot(103.0, 1, lengths, ages, {"enqueued": 87_654_321, "done": 87_654_321}, None, paused=True)
    )
    queue.show_workers((WorkerRow("thumbnails-of-the-big-archive-1", "ready", 3000, 1234, 4194303, 4194304),))
    text = " ".join(drawn(board, width, 60).replace(",", "").replace("│", " ").split())
    for words in (
        "1234567",
        "3000",
        "45678",
        "9876543",
        "87654321",
        "9.5 s",
        "1 of 4",
        "1234",
        f"{queue.name}-1",
    ):
        assert words in text.replace("1 of 1 workers ready", "1 of 4")


def test_foreign_text_moves_no_cursor_and_is_no_markup() -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202e\x9b2J[bold]"
    board = a_board()
    board.title = board.server = evil
    queue = board.queues["thumbs"]
    queue.decide(Decision(3, ScalingRule.MAX_REPLICAS, evil, ScalingState()), before=2)
    queue.show_workers((WorkerRow(evil, "ready", 1, 1, 1, 1),))
    board.note(evil)
    texts = [drawn(board, 200, 60)]
    queue.see(None, evil)
    texts += [drawn(board, 200, 60), drawn(board, 60, 60)]
    for text in texts:
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
        assert r"\x1b]52;c;ZXZpbA==\x07" in text
        assert "[bold]" in text
