"""Which hosts a password may be sent to."""

from dataclasses import replace

import pytest

from claimq.address.redis_url import parse_url, with_namespace
from claimq_control.manifest import PasswordSecretRef, RedisSpec, SentinelSpec, UrlSecretRef
from claimq_control.password_hosts import is_allowed, parse_hosts, password_refs

HOSTS = {
    "redis": ["redis://redis", "redis://redis:7/3", "rediss://REDIS:6380"],
    "redis:6379": ["redis://redis", "redis://redis:6379/2"],
    "*.team.svc": ["redis://a.team.svc:1", "redis+sentinel://a.team.svc,b.team.svc/main"],
    "rediss://redis": ["rediss://redis"],
    "redis.team.svc": ["redis://redis"],
    "redis-?": ["redis://redis-1"],
    "redis*": ["redis+cluster://redis-1,redis-2"],
    "*": ["redis://redis", "redis://db.example."],
    "[::1]:6379": ["redis://[::1]"],
}


@pytest.mark.parametrize("entry", HOSTS)
def test_a_password_goes_to_the_hosts_of_an_entry(entry: str) -> None:
    for url in HOSTS[entry]:
        assert is_allowed(parse_url(with_namespace(url, "team")), [entry], "team")


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("redis", "redis://redis.evil.example"),
        ("redis", "redis://evil"),
        ("redis:6379", "redis://redis:6380"),
        ("rediss://redis", "redis://redis"),
        ("*.team.svc", "redis://team.svc.evil"),
        ("redis", "redis+cluster://redis,evil"),
        ("redis", "redis+sentinel://redis,evil/main"),
        ("*", "unix:///run/redis.sock"),
        ("", "redis://redis"),
        ("redis", "redis://redis.other.svc"),
        ("redis.other.svc", "redis://redis"),
    ],
)
def test_a_password_is_sent_to_no_other_host(entry: str, url: str) -> None:
    assert not is_allowed(parse_url(with_namespace(url, "team")), parse_hosts(entry), "team")


def test_entries_are_separated_by_commas_blanks_and_lines() -> None:
    assert parse_hosts(" a:1, b\n*.c\n") == ("a:1", "b", "*.c")


def test_entries_are_bounded_in_number_and_length() -> None:
    assert parse_hosts(",".join(f"h{number}" for number in range(1000)))[-2:] == ("h62", "h63")
    assert parse_hosts(f"{'h' * 281} a?c b") == ("b",)
    many = parse_url("redis+cluster://" + ",".join(["redis"] * 65))
    assert not is_allowed(many, ["*"], "")
    assert is_allowed(replace(many, addresses=many.addresses[:64]), ["*"], "")


@pytest.mark.timeout(
    60
)  # the time of a regular expression for it would grow with the power of the number of wildcards
def test_the_largest_list_of_wildcards_is_compared_in_time() -> None:
    entries = parse_hosts(" ".join(["*a" * 125 + "b"] * 64))
    endpoint = parse_url("redis+cluster://" + ",".join(["a" * 253] * 64))
    assert not is_allowed(endpoint, entries, "")


def test_a_password_in_the_secret_of_the_address_goes_to_that_address() -> None:
    password, other = PasswordSecretRef(name="redis"), PasswordSecretRef(name="watch")
    sentinel = SentinelSpec(master_name="main", password_secret_ref=other)
    together = RedisSpec(
        secret_ref=UrlSecretRef(name="redis"), password_secret_ref=password, sentinel=sentinel
    )
    assert password_refs(together) == (other,)
    assert password_refs(replace(together, secret_ref=None, url="redis://evil")) == (password, other)
    assert password_refs(RedisSpec(url="redis://redis")) == ()
