"""The memory that a reply takes is counted, wherever the parts of it end."""

import pytest

from claimq.redis_store.clients.parsers import Announced

REPLIES = [
    (b"+OK\r\n", 40),
    (b":123\r\n$-1\r\n*-1\r\n", 144),
    (b"$3\r\nabc\r\n", 45),
    (b"*2\r\n$0\r\n\r\n:1\r\n", 162),
    (b"$14\r\n\r\n*999999999\r\n\r\n", 56),  # a payload that looks like a list
    (b"-" + b"x" * 5000 + b"\r\n*3\r\n", 488),
    (b"*1\r\n*2000000000\r\n", 16_000_000_136),
    (b"%3\r\n", 364),
]


@pytest.mark.parametrize(("reply", "size"), REPLIES)
@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_the_memory_of_a_reply_is_counted(reply: bytes, size: int, step: int) -> None:
    announced = Announced()
    for at in range(0, len(reply), step):
        announced.feed(reply[at : at + step])
    assert announced.size == size
