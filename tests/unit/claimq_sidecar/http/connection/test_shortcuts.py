"""The form of claimq.worker's requests, which need no parser, and what only looks like it."""

import pytest

from claimq.worker.wire import request
from claimq_sidecar.http.connection.shortcuts import plain_request


def test_what_the_client_sends_is_plain() -> None:
    assert plain_request(request("/v1/next", b'{"wait":0}')) == ("/v1/next", b'{"wait":0}')


HEAD = b"POST /v1/next HTTP/1.1\r\nhost: claimq\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "data",
    [
        request("/v1/session", b"{}"),  # its response has no length
        request("/v1/stream", b"{}"),  # likewise
        request("/v1/next", b"{}")[:-1],
        request("/v1/next", b"{}") + b"P",
        request("/v1/next", b""),
        HEAD + b"content-length: 02\r\n\r\n{}",
        HEAD + b"content-length: +2\r\n\r\n{}",
        HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        HEAD + b"content-length: 2\r\nconnection: close\r\n\r\n{}",
        b"GET" + request("/v1/next", b"{}")[4:],
        b"\r\n" + request("/v1/next", b"{}"),
        request("/v1/next?a=b", b"{}"),
        request("/v1/next", b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
        request("/v1/next", b"{}").replace(b"host: claimq\r\n", b""),
    ],
)
def test_everything_else_is_left_to_the_parser(data: bytes) -> None:
    assert plain_request(data) is None
