"""The check of the Host header, and which addresses are loopback."""

import pytest

from claimq_process.http_host import is_loopback, is_own_host


@pytest.mark.parametrize("header", ["127.0.0.1:80", "localhost", "[::1]:9", "LOCALHOST:1", "box"])
def test_a_host_header_with_an_own_name_or_an_address_is_accepted(header: str) -> None:
    assert is_own_host(header, "box")


@pytest.mark.parametrize("header", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "a:b:c"])
def test_a_host_header_with_another_name_is_refused(header: str) -> None:
    assert not is_own_host(header, "127.0.0.1")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "::1"])
def test_a_host_on_this_machine_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example"])
def test_any_other_host_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)
