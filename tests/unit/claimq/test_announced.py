"""What a reply announces is counted, wherever the parts of it end."""

import pytest

from claimq.redis_store.parsers import Announced

REPLIES = [
    (b"+OK\r\n", 0),
    (b":123\r\n$-1\r\n*-1\r\n", 0),
    (b"$3\r\nabc\r\n", 5),
    (b"*2\r\n$0\r\n\r\n:1\r\n", 10),
    (b"$14\r\n\r\n*999999999\r\n\r\n", 16),  # a payload that looks like a list
    (b"-" + b"x" * 5000 + b"\r\n*3\r\n", 12),
    (b"*1\r\n*2000000000\r\n", 8_000_000_004),
    (b"%3\r\n", 24),
]


@pytest.mark.parametrize(("reply", "size"), REPLIES)
@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_the_announced_bytes_are_counted(reply: bytes, size: int, step: int) -> None:
    announced = Announced()
    for at in range(0, len(reply), step):
        announced.feed(reply[at : at + step])
    assert announced.size == size
