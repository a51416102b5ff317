"""The wire format: whole values out of any pieces."""

import pytest

from testkit.servers.resp import Frames, Reply, ReplyError, request

EXAMPLES: list[tuple[bytes, Reply]] = [
    (b"+OK\r\n", b"OK"),
    (b":-7\r\n", -7),
    (b"$-1\r\n", None),
    (b"_\r\n", None),
    (b"*-1\r\n", None),
    (b"$0\r\n\r\n", b""),
    (b"$4\r\na\r\nb\r\n", b"a\r\nb"),
    (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", [b"a", [1]]),
    (b"%1\r\n+a\r\n:1\r\n", [b"a", 1]),
    (b">2\r\n+invalidate\r\n_\r\n", [b"invalidate", None]),
    (request(("SET", b"k\0", 1.5)), [b"SET", b"k\0", b"1.5"]),
]


@pytest.mark.parametrize(("raw", "value"), EXAMPLES)
def test_a_value_is_found_whole_whatever_the_pieces(raw: bytes, value: Reply) -> None:
    for cut in range(len(raw)):
        frames = Frames()
        early, late = frames.feed(raw[:cut]), frames.feed(raw[cut:] + b"+next\r\n")
        assert early == []
        assert late == [(raw, value), (b"+next\r\n", b"next")]


def test_an_error_is_a_value() -> None:
    [(raw, value)] = Frames().feed(b"-ERR no\r\n")
    assert raw == b"-ERR no\r\n"
    assert isinstance(value, ReplyError)
    assert str(value) == "ERR no"


def test_what_is_no_resp_is_refused() -> None:
    with pytest.raises(ValueError, match="not RESP"):
        Frames().feed(b"GET / HTTP/1.1\r\n")
