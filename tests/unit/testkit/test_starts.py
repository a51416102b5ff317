"""The checker of starts in an append-only file."""

from pathlib import Path

import pytest

from claimq import Limit
from testkit.checkers.starts import fullest, starts_of

RATE = Limit("api", rate="100/s", burst=2)


@pytest.mark.parametrize(
    ("instants", "most"),
    [([], 0), ([5, 5], 2), ([5, 5, 15], 2), ([5, 5, 14], 2.1), ([0, 10, 20, 30, 35], 1.5), ([0, 1000], 1)],
)
def test_the_fullest_window_has_the_starts_that_the_rate_does_not_allow(
    instants: list[int], most: float
) -> None:
    assert fullest(instants, RATE) == most


def step(*commands: tuple[bytes, ...]) -> bytes:
    words = [(b"MULTI",), *commands, (b"EXEC",)]
    return b"".join(
        b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
        for command in words
    )


def test_a_claim_is_no_start_if_its_item_goes_back_to_the_head_without_a_reason(tmp_path: Path) -> None:
    items = [b'cq1 i%d 1 - {"history":[]}\nx' % number for number in range(3)]
    log, busy, main = b"cq:{q}:claims", b"cq:{q}:busy:w", b"cq:{q}:main"
    claims = [
        step((b"ZADD", log, b"7", b"%d 1 nonce w" % number), (b"HSET", busy, b"w/%d.nonce" % number, item))
        for number, item in enumerate(items)
    ]
    back = [
        step((b"HDEL", busy, b"w/0.nonce"), (b"RPUSH", main, items[0])),
        step((b"HDEL", busy, b"w/1.nonce"), (b"RPUSH", main, items[1].replace(b"[]", b"[1]"))),
        step((b"HDEL", busy, b"w/2.nonce")),
    ]
    (tmp_path / "a.incr.aof").write_bytes(b"".join([*claims, *back]))
    starts = starts_of(tmp_path, "q")
    assert (starts.instants, starts.given_back, starts.most_busy) == ([7, 7], 1, 3)


def test_costs_keys_and_ends_are_counted(tmp_path: Path) -> None:
    items = [b'cq1 i%d 1 ann {"options":{"key":"k","cost":3}}\nx' % number for number in range(2)]
    log, busy, delayed = b"cq:{q}:claims", b"cq:{q}:busy:w", b"cq:{q}:delayed"
    calls = [
        step(
            (b"HSET", busy, b"w/1.nonce", items[0], b"w/2.nonce", items[1]),
            (b"ZADD", log, b"7", b"1 2 nonce w"),
        ),
        step((b"HDEL", busy, b"w/1.nonce")),
        step((b"ZADD", delayed, b"99", items[1]), (b"HDEL", busy, b"w/2.nonce")),
    ]
    (tmp_path / "a.incr.aof").write_bytes(b"".join(calls))
    starts = starts_of(tmp_path, "q")
    assert starts.by_cost("queue") == {"": [7] * 6}
    assert (starts.by_cost("client"), starts.by_cost("key")) == ({"ann": [7] * 6}, {"k": [7] * 6})
    assert (starts.most_of_key, starts.given_back, dict(starts.ended)) == (2, 0, {"i0": 1})
