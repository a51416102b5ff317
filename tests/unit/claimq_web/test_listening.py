"""Addresses on which the web page listens."""

import socket

import pytest

from claimq_admin.errors import CommandError
from claimq_web.listening import instead_of, opened, parse_address


@pytest.mark.parametrize("text", ["127.0.0.1:80", "localhost:0", "[::1]:7380"])
def test_the_page_listens_on_loopback(text: str) -> None:
    parse_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:80", "[::]:80", "192.0.2.7:1", "example.org:80"])
def test_the_page_listens_elsewhere_only_if_that_is_asked_for(text: str) -> None:
    with pytest.raises(CommandError, match="has no login"):
        parse_address(text)
    parse_address(text, allow_remote=True)


@pytest.mark.parametrize("text", ["", "127.0.0.1", ":80", "127.0.0.1:x", "127.0.0.1:99999", "::1:80"])
def test_a_malformed_address_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(CommandError, match="write HOST:PORT"):
        parse_address(text)


def test_a_page_beside_its_default_address_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        default = f"127.0.0.1:{taken.getsockname()[1]}"
        page, _ = opened(None, default=default)
        with page:
            assert instead_of(None, default=default, listening=page) == f" ({default} is in use)"
            assert instead_of("127.0.0.1:0", default=default, listening=page) == ""
        assert instead_of(None, default=default, listening=taken) == ""
