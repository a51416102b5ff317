"""What `claimq top` shows, and how keys change it."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest
from rich.console import Console

from claimq.model import COUNTERS, Item, Located, Snapshot, State, WorkerInfo
from claimq_cli.top.screen import frame
from claimq_cli.top.view import SORTS, QueueRow, View, keys_in


def snapshot(
    now: float = 0.0, *, main: int = 0, failed: int = 0, oldest: float | None = None, paused: bool = False,
    **counters: int,
) -> Snapshot:  # fmt: skip
    lengths = {State.MAIN: main, State.BUSY: 0, State.DELAYED: 0, State.FAILED: failed}
    ages = dict.fromkeys(State, None) | {State.MAIN: oldest}
    known = dict.fromkeys(COUNTERS, 0) | counters
    return Snapshot(
        now=now,
        seq=1,
        lengths=lengths,
        ages=ages,
        counters=known,
        next_due_in=None,
        paused=paused,
        due_soon=0,
    )


def row(name: str, *snapshots: Snapshot) -> QueueRow:
    one = QueueRow(name)
    for each in snapshots:
        one.see(each)
    return one


def view(*rows: QueueRow, **chosen: object) -> View:
    made = View({one.name: one for one in rows})
    for name, value in chosen.items():
        setattr(made, name, value)
    return made


def press(on: View, keys: Iterable[str]) -> View:
    for key in keys:
        on.press(key)
    return on


def lines(on: View, *, height: int = 24, width: int = 100) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=False)
    console.print(frame(on, console))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_rates_are_averages_of_the_last_ten_seconds() -> None:
    seen = [
        snapshot(float(at), done=100 * at if at <= 20 else 2000 + 50 * (at - 20)) for at in range(0, 41, 2)
    ]
    one = row("q", *seen)
    assert one.rate("done") == 50.0
    assert row("q", *seen[:11]).rate("done") == 100.0


def test_there_is_no_rate_before_the_second_reading_and_after_a_loss_of_data() -> None:
    assert QueueRow("q").rate("done") == 0.0
    assert row("q", snapshot(1.0, done=5)).rate("done") == 0.0
    lost = row("q", snapshot(1.0, enqueued=100, done=90), snapshot(3.0, enqueued=1, done=0))
    assert lost.rate("done") == 0.0


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("problems", ["c", "a", "b"]),
        ("main", ["b", "c", "a"]),
        ("oldest", ["a", "b", "c"]),
        ("failed", ["c", "a", "b"]),
        ("queue", ["a", "b", "c"]),
    ],
)
def test_rows_are_sorted_by_the_largest_value_and_then_by_name(sort: str, expected: list[str]) -> None:
    rows = (
        row("a", snapshot(main=1, oldest=9.0)),
        row("b", snapshot(main=3, oldest=5.0)),
        row("c", snapshot(main=2, failed=4)),
    )
    assert [one.name for one in view(*rows, sort=sort).shown()] == expected


def test_s_goes_through_all_columns_and_begins_again() -> None:
    on = view(row("a"))
    seen = [press(on, "s").sort for _ in SORTS]
    assert sorted(seen) == sorted(SORTS)
    assert seen[-1] == "problems"


def test_the_selection_stays_within_the_rows_and_with_its_queue() -> None:
    on = view(*(row(name, snapshot(main=n)) for n, name in enumerate("abc")), sort="main")
    assert press(on, ["up"]).selected == "c"  # the first one: most items first
    assert press(on, ["down", "j", "j", "down"]).selected == "a"
    on.rows["a"].see(snapshot(main=99))
    assert press(on, ["k"]).selected == "a"
    assert press(on, ["down"]).selected == "c"


def test_enter_opens_the_selected_queue_and_escape_closes_it() -> None:
    on = view(row("a", snapshot(main=2)), row("b", snapshot(main=1)))
    assert press(on, ["enter"]).opened == "a"
    assert press(on, ["escape"]).opened == ""
    assert press(on, ["down", "down", "enter"]).opened == "b"
    assert press(on, ["s", "/"]).is_typing is False
    assert press(on, ["backspace"]).opened == ""
    assert press(view(), ["enter"]).opened == ""


def test_a_filter_is_typed_corrected_kept_and_removed() -> None:
    on = view(row("shop.photos"), row("shop.mail"), row("Photos"))
    press(on, ["/", *"phq", "backspace"])
    assert (on.filter, on.is_ended) == ("ph", False)
    assert [one.name for one in on.shown()] == ["Photos", "shop.photos"]
    assert press(on, ["enter", "s"]).filter == "ph"
    assert press(on, ["escape"]).filter == ""
    assert press(on, ["/", "x", "escape"]).filter == ""
    assert press(on, ["q"]).is_ended


def test_keys_are_read_from_what_a_terminal_sends() -> None:
    assert keys_in(b"\x1b[A\x1bOBj\r\x7f\x1b") == ["up", "down", "j", "enter", "backspace", "escape"]
    assert keys_in("ü/".encode()) == ["ü", "/"]
    assert keys_in(b"\x1b[5~") == []
    assert keys_in(b"\x1bq") == ["escape", "q"]
    assert keys_in(b"\xff") == []


def test_the_screen_shows_each_queue_with_its_numbers() -> None:
    rows = (
        row("mail", snapshot(0.0, enqueued=0), snapshot(2.0, main=1200, oldest=65.0, enqueued=30, done=20)),
        row("old", snapshot(paused=True)),
        row("still", snapshot(100.0, main=1, oldest=61.0)),
        QueueRow("gone", problem="the server does not answer"),
    )
    shown = lines(view(*rows))
    assert shown[0] == "claimq top   4 queues   sorted by problems"
    (mail,) = [line for line in shown if "mail" in line]
    assert mail.split() == ["mail", "1,200", "65", "s", "0", "0", "0", "15.0", "10.0", "0"]
    assert any("old (paused)" in line for line in shown)
    assert any("still (no progress)" in line for line in shown)
    assert [line.split()[0] for line in shown[3:7]] == ["gone", "old", "still", "mail"]
    (gone,) = [line for line in shown if "gone" in line]
    assert gone.split() == ["gone", *"--------"]
    assert shown[-1].strip() == "the server does not answer"


def test_live_workers_and_those_with_claims_are_counted_in_both_views() -> None:
    one = QueueRow("mail")
    one.see(snapshot(), [WorkerInfo("a", 2, 0.0), WorkerInfo("b", 1, 0.0), WorkerInfo("c", 0, 0.0)])
    (mail,) = [line for line in lines(view(one)) if "mail" in line]
    assert mail.endswith("  3 (2 busy)")
    assert "   workers 3 (2 busy)" in lines(view(one, opened="mail"), width=120)[1]


def test_the_screen_is_never_higher_than_the_terminal_and_shows_the_selected_row() -> None:
    on = view(*(row(f"queue-{n:03}", snapshot()) for n in range(500)), selected="queue-400")
    shown = lines(on, height=20)
    assert len(shown) <= 20
    assert any("queue-400" in line for line in shown)
    on.selected = "queue-499"
    assert any("queue-499" in line for line in lines(on, height=20))


def full_row(name: str) -> QueueRow:
    return row(
        name,
        snapshot(0.0),
        snapshot(2.0, main=1_234_567, failed=9_876_543, oldest=90.0, enqueued=246_912, done=44_444),
    )


FIGURES = ["1,234,567", "9,876,543", "90 s", "123,456.0", "22,222.0"]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("length", [9, 41, 91, 200])
def test_no_name_and_no_number_is_cut_at_any_width(width: int, length: int) -> None:
    names = ["n" * length, "short", "other"]
    shown = lines(view(*map(full_row, names)), width=width)
    assert max(map(len, shown)) <= width
    assert len(shown) <= 24
    assert names[0] in "".join(shown)
    for word in ("short", "other", *FIGURES):
        assert any(word in line for line in shown)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_only_the_payload_of_an_item_in_progress_is_cut(width: int) -> None:
    claim = Located(
        Item(id="i" * 41, payload=b"p" * 90, client=None, enqueued_at=1.0, first_enqueued_at=1.0),
        State.BUSY,
        "w/1.n",
        "w" * 91,
        claimed_at=95.0,
        lease_until=130.0,
    )
    on = view(full_row("q" * 91), opened="q" * 91, claims=[claim])
    on.rows[on.opened].see(snapshot(100.0, main=1_234_567))
    shown = lines(on, width=width)
    assert max(map(len, shown)) <= width
    together = "".join(line.strip() for line in shown)
    for word in ("q" * 91, "i" * 41, "w" * 91):
        assert word in together
    assert any("1,234,567" in line for line in shown)
    assert "…" in together or "p" * 90 in together


def test_a_narrow_screen_shows_whole_blocks_and_the_selected_one() -> None:
    rows = [full_row(f"queue-{n:02}-{'n' * 41}") for n in range(40)]
    on = view(*rows, selected=rows[30].name)
    shown = lines(on, width=80, height=20)
    assert len(shown) <= 20
    assert any(rows[30].name in line for line in shown)
    assert sum("queue-" in line for line in shown) == sum("done/s" in line for line in shown)


def test_a_long_error_is_wrapped_and_leaves_room_for_a_row() -> None:
    on = view(row("q", snapshot()), note="no answer from the server " * 8)
    shown = lines(on, width=40, height=20)
    assert len(shown) <= 20
    assert "".join(shown).count("server") == 8
    assert "q" in shown


def test_an_opened_queue_shows_what_is_in_progress_and_escapes_it() -> None:
    claim = Located(
        Item(id="x", payload=b"\x1b[2Jevil", client=None, enqueued_at=1.0, first_enqueued_at=1.0),
        State.BUSY,
        "w/1.n",
        "worker-1",
        claimed_at=95.0,
        lease_until=130.0,
    )
    on = view(row("q", snapshot(100.0, main=7)), opened="q", claims=[claim])
    shown = lines(on, width=120)
    assert "main 7" in shown[1]
    (line,) = [one for one in shown if "worker-1" in one]
    assert line.split()[:3] == ["x", "worker-1", "5"]
    assert r"\x1b[2Jevil" in line


def test_an_error_of_the_server_is_shown_instead_of_the_keys() -> None:
    on = view(row("q", snapshot()))
    assert lines(on)[-1].strip() == "q quit   ↑↓ select   enter open   s sort   / filter"
    on.note = "no answer"
    assert lines(on)[-1] == "no answer"


def test_an_opened_queue_with_failed_items_names_the_command_for_their_reasons() -> None:
    on = view(row("q", snapshot(failed=4)), opened="q", command="claimq -n shop", reasons={"Timeout": 4})
    shown = next(line for line in lines(on) if line.startswith("failed: "))
    assert shown == 'failed: 4 "Timeout"; all: claimq -n shop failed reasons q'
    on.reasons = {}
    assert not any("failed reasons" in line for line in lines(on))
