"""The accounting of the fault table finds each kind of fault, and nothing where there is none."""

from collections.abc import Mapping, Sequence

import pytest

from claimq_faults.account import Account, Line, account
from claimq_faults.cases import FLAVOURS, QUICK, Case, cases

NOTHING = Account(stored=2, lost=0, repeated=0, overlapping=0, out_of_order=0, left=0)


def handled(item: str, at: float, number: int, process: str = "w0", *, is_first: bool = True) -> list[Line]:
    """A claim of an item whose handler takes a second and whose done is stored."""
    token = f"{process}/{number}.nonce-ab"
    return [
        Line(process, at, "claimed", item, token, is_first),
        Line(process, at, "began", item, token),
        Line(process, at + 1, "ended", item, token),
        Line(process, at + 1, "done", item, token),
    ]


def stored(*items: str) -> list[Line]:
    return [Line("p", number / 10, "stored", item) for number, item in enumerate(items)]


TWO = stored("p-0", "p-1")


@pytest.mark.parametrize(
    ("lines", "left", "ended_at", "expected"),
    [
        ([*TWO, *handled("p-0", 1, 1), *handled("p-1", 1, 2)], [], {}, {}),
        ([*TWO, *handled("p-0", 1, 1)], [], {}, {"lost": 1}),
        ([*TWO, *handled("p-0", 1, 1)], ["p-1"], {}, {"left": 1}),
        (
            [*TWO, *handled("p-0", 1, 1), *handled("p-1", 1, 2), *handled("p-0", 5, 3, is_first=False)],
            [],
            {},
            {"repeated": 1},
        ),
        (
            [*TWO, *handled("p-1", 1, 1), *handled("p-0", 2, 2)],
            [],
            {},
            {"out_of_order": 1},
        ),
        (  # claim 2 was of p-0, and was lost on its way
            [*TWO, *handled("p-1", 1, 3), *handled("p-0", 2, 4), *handled("q-0", 0.5, 1)],
            [],
            {},
            {},
        ),
        (
            [
                *TWO,
                *handled("p-0", 1, 1)[:2],
                *handled("p-0", 1.5, 3, "w1", is_first=False),
                *handled("p-1", 1, 2),
            ],
            [],
            {},
            {"overlapping": 1},
        ),
        (
            [
                *TWO,
                *handled("p-0", 1, 1)[:2],
                *handled("p-0", 1.5, 3, "w1", is_first=False),
                *handled("p-1", 1, 2),
            ],
            [],
            {"w0": 1.2},
            {},
        ),
    ],
    ids=[
        "all well",
        "lost",
        "left",
        "repeated",
        "out of order",
        "unseen claim",
        "overlapping",
        "killed before",
    ],
)
def test_each_broken_promise_is_counted(
    lines: Sequence[Line], left: Sequence[str], ended_at: Mapping[str, float], expected: Mapping[str, int]
) -> None:
    assert account(lines, left, ended_at) == Account(**{**NOTHING.__dict__, **expected})


def test_a_lost_item_breaks_the_promise_of_a_replicated_failover() -> None:
    case = next(case for case in QUICK if case.durability == "replicated")
    counts = Account(stored=9, lost=1, repeated=2, overlapping=3, out_of_order=0, left=0)
    assert case.broken(counts) == ["lost"]


@pytest.mark.parametrize(
    ("shape", "appendfsync", "durability", "fault", "allowed"),
    [
        ("single", "always", "none", "power failure", ""),
        ("single", "everysec", "none", "power failure", "lost overlapping repeated"),
        ("replica", "everysec", "replicated", "power failure", "lost overlapping repeated"),
        ("replica", "everysec", "fsynced+done", "power failure", "overlapping"),
        ("Sentinel", "always", "none", "failover", "lost overlapping repeated"),
        ("Sentinel", "always", "replicated", "failover", "overlapping repeated"),
        ("Sentinel", "always", "replicated+done", "failover", "overlapping"),
        ("single", "always", "none", "worker stopped", "overlapping"),
        ("single", "everysec", "none", "disk full", ""),
    ],
)
def test_a_row_allows_what_the_guarantees_allow(
    shape: str, appendfsync: str, durability: str, fault: str, allowed: str
) -> None:
    case = Case("valkey", shape, appendfsync, durability, fault)
    assert " ".join(sorted(case.allowed())) == allowed


def test_every_server_has_the_rows_that_it_can_run() -> None:
    rows = [case.cells() for case in cases()]
    assert len(set(rows)) == len(rows)
    redis7, redis8, valkey = ({cells[1:] for cells in rows if cells[0] == name} for name in FLAVOURS.values())
    always, everysec = (("replica", one, "fsynced+done", "power failure") for one in ("always", "everysec"))
    assert redis8 - redis7 == {always, everysec}
    assert redis8 - valkey == {everysec}
