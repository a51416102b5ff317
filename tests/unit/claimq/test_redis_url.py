"""Where the server is: URLs taken apart, and what is wrong with one that cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.address.redis_url import in_namespace, parse_url, with_namespace
from claimq.redis_store.settings import RedisSettings
from claimq_control.manifest.redis_spec import url_fault

GOOD = {
    "redis://localhost:6379/0": ("single", False, (("localhost", 6379),), None, 0),
    "redis://localhost": ("single", False, (("localhost", 6379),), None, 0),
    "redis://": ("single", False, (("localhost", 6379),), None, 0),
    "redis://10.0.0.1:7/3": ("single", False, (("10.0.0.1", 7),), None, 3),
    "redis://[::1]:7/3": ("single", False, (("::1", 7),), None, 3),
    "redis://localhost?db=4": ("single", False, (("localhost", 6379),), None, 4),
    "rediss://redis.example:6380/1": ("single", True, (("redis.example", 6380),), None, 1),
    "unix:///run/redis.sock": ("single", False, (), "/run/redis.sock", 0),
    "unix:///run/redis.sock?db=2": ("single", False, (), "/run/redis.sock", 2),
    "unix:///run/a%20b.sock": ("single", False, (), "/run/a b.sock", 0),
    "redis+sentinel://a:1,b:2,c/main/5": ("sentinel", False, (("a", 1), ("b", 2), ("c", 26379)), None, 5),
    "rediss+sentinel://a/main": ("sentinel", True, (("a", 26379),), None, 0),
    "redis+cluster://a:1,b": ("cluster", False, (("a", 1), ("b", 6379)), None, 0),
    "rediss+cluster://a:1/0": ("cluster", True, (("a", 1),), None, 0),
}


@pytest.mark.parametrize("url", GOOD)
def test_a_url_is_taken_apart(url: str) -> None:
    endpoint = parse_url(url)
    assert (endpoint.mode, endpoint.tls, endpoint.addresses, endpoint.socket_path, endpoint.db) == GOOD[url]


def test_user_and_password_are_read_and_unquoted() -> None:
    endpoint = parse_url("redis://work%40er:p%2Fa%3Ass@localhost/0")
    assert (endpoint.username, endpoint.password) == ("work@er", "p/a:ss")
    only = parse_url("redis://:secret@localhost")
    assert (only.username, only.password) == (None, "secret")
    assert parse_url("unix://worker:secret@/run/s").password == "secret"
    assert parse_url("redis+sentinel://u:p@a:1,b:2/main").addresses == (("a", 1), ("b", 2))


def test_the_service_that_sentinels_watch_is_read() -> None:
    assert parse_url("redis+sentinel://a/my%20main/1").service == "my main"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:6379", "write one of redis://HOST"),
        ("http://localhost", "write one of redis://HOST"),
        ("", "write one of redis://HOST"),
        ("redis://localhost/x", "is not a number; write one like /0"),
        ("redis://localhost?db=-1", "is not a number"),
        ("redis://localhost:notaport", "write HOST:PORT"),
        ("redis://localhost:99999", "write HOST:PORT"),
        ("redis://localhost:0", "write HOST:PORT"),
        ("redis+cluster://a:7000,b:0", "write HOST:PORT"),
        ("valkey://localhost", "begins with valkey://; Valkey is written as Redis: redis://HOST:PORT/DB"),
        ("valkeys://localhost", "begins with valkeys://; Valkey is written as Redis"),
        ("redis://localhost/0?ssl_cert_reqs=none", "has a parameter other than"),
        ("redis://localhost?db=1&protocol=3", "has a parameter other than"),
        ("unix:///run/s?password=", "has a parameter other than"),
        ("unix://", "has the path of the server's socket"),
        ("redis+sentinel://a:1", "names the service"),
        ("redis+cluster://a:1/3", "database 0 only"),
    ],
)
def test_a_url_that_is_none_says_what_to_write(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_url(url)


SECRET = "canary-83b1"


@pytest.mark.parametrize(
    "url",
    [
        f"redis://u:{SECRET}@localhost:notaport/0", f"redis://u:{SECRET}@localhost/x",
        f"ftp://u:{SECRET}@localhost",
        f"redis+cluster://u:{SECRET}@a:1/3", f"redis+sentinel://u:{SECRET}@a:1", f"u:{SECRET}@localhost",
        f"redis://u:{SECRET}", f"redis://:{SECRET}/0", f"rediss://u:{SECRET}:6379", f"redis://a,u:{SECRET}",
        f"redis://pa@ss/{SECRET}@host", f"redis://pa@ss?{SECRET}@host", f"redis://pa@ss/0#{SECRET}@host",
        f"{SECRET}://host", f"redis://host/{SECRET}", f"redis://host?db={SECRET}", f"redis://{SECRET}:x",
        f"unix://u:pa/{SECRET}@/sock?db=0", f"unix://u:pa?{SECRET}@/sock", f"unix://u:pa#{SECRET}@/sock",
        f"unix://{SECRET}/sock", f"unix://u:p@x/{SECRET}@/sock", f"unix://:/{SECRET}@/sock",
        f"redis+sentinel://pa@ss:1/{SECRET}@host/main", f"redis://host/0?password={SECRET}", f"unix:///s?{SECRET}=1", f"redis+cluster://host:1/{SECRET}",
    ],
)  # fmt: skip
def test_no_error_repeats_the_secret_in_a_url(url: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it is what it does not say that matters
        RedisSettings(url=url)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


def test_a_manifest_says_nothing_of_an_address_that_may_hold_a_password() -> None:
    urls = (
        f"redis://pa@ss/{SECRET}@host", f"redis://host/{SECRET}", f"redis://{SECRET}:x",
        f"unix://u:pa/{SECRET}@/sock", f"redis+sentinel://u/{SECRET}@h:1/2", f"redis://u/0/{SECRET}@h",
    )  # fmt: skip
    for url in urls:
        fault = url_fault(url)
        assert fault is not None
        assert SECRET not in fault


def test_no_repr_shows_a_secret() -> None:
    made = RedisSettings(url=f"redis://u:{SECRET}@localhost", password=SECRET, sentinel_password=SECRET)
    assert SECRET not in repr(made)
    assert SECRET not in repr(parse_url(made.url))


@pytest.mark.parametrize("name", ["connect_timeout", "reply_timeout", "retry_for", "max_connections"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_times_and_counts_are_over_zero(name: str, value: float) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"^{name} is .*; give "):
        RedisSettings(**{name: value})  # type: ignore[arg-type]  # a wrong value on purpose


@pytest.mark.parametrize("name", ["retry_for", "verdict_retry_for"])
def test_a_call_is_retried_no_longer_than_its_reply_is_kept(name: str) -> None:
    RedisSettings(**{name: 3000})  # type: ignore[arg-type]  # a table of one argument
    with pytest.raises(ValueError, match=f"^{name} is 7200; give 0.001 to 3,000 seconds"):
        RedisSettings(**{name: 7200})  # type: ignore[arg-type]  # a table of one argument


@pytest.mark.parametrize(
    "name",
    [
        "url",
        "username",
        "password",
        "sentinel_username",
        "sentinel_password",
        "ca_file",
        "cert_file",
        "key_file",
    ],
)
@pytest.mark.parametrize("value", [5, b"canary-83b1"])
def test_a_setting_that_is_no_text_is_named_and_not_shown(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} is (int|bytes); give text$"):
        RedisSettings(**{name: value})  # type: ignore[arg-type]  # a wrong value on purpose


def test_a_certificate_needs_its_key() -> None:
    for given_ in ({"cert_file": "c.pem"}, {"key_file": "k.pem"}):
        with pytest.raises(ValueError, match="both cert_file and key_file"):
            RedisSettings(**given_)  # type: ignore[arg-type]  # a table of one argument


@given(st.text(max_size=40))
def test_any_text_is_a_url_or_a_value_error(text: str) -> None:
    for url in (text, f"redis://{text}", f"redis+sentinel://{text}", f"unix://{text}"):
        try:
            parse_url(url)
        except ValueError:
            continue


@pytest.mark.parametrize("letter", ["/", "?", "#", "[", "]", "\u2100", "/1?"])
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel", "redis+cluster"])
def test_a_password_that_is_not_encoded_is_not_repeated(scheme: str, letter: str) -> None:
    with pytest.raises(ValueError, match="percent-encode") as caught:
        RedisSettings(url=f"{scheme}://user:can{letter}ary@host:6379/0")
    assert "ary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_socket_may_have_an_at_in_its_path() -> None:
    assert parse_url("unix:///run/a@b.sock?db=2").socket_path == "/run/a@b.sock"
    assert parse_url("unix://u:p@/run/a@b.sock").password == "p"


def test_a_socket_with_a_host_says_what_to_write() -> None:
    with pytest.raises(ValueError, match="three slashes: unix:///path/to/socket"):
        parse_url("unix://run/valkey.sock")
    assert (
        url_fault("unix://run/valkey.sock")
        == "has a host before the path of a socket; write unix:///path/to/socket?db=0"
    )


IN_TEAM = {
    "redis": "redis.team.svc",
    "redis-0:6379": "redis-0.team.svc:6379",
    "redis.other": "redis.other",
    "redis.other.svc:1": "redis.other.svc:1",
    "redis.": "redis.",
    "localhost:6379": "localhost:6379",
    "10.0.0.1": "10.0.0.1",
    "2130706433": "2130706433",
    "[::1]:6379": "[::1]:6379",
    "fe80::1": "fe80::1",
    "": "",
    ":6379": ":6379",
}


@pytest.mark.parametrize("address", IN_TEAM)
def test_a_short_host_name_is_a_service_of_the_namespace(address: str) -> None:
    assert in_namespace(address, "team") == IN_TEAM[address]
    assert in_namespace(address, "") == address


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("redis://redis:6379/2", "redis://redis.team.svc:6379/2"),
        ("rediss://u:a%40b@redis", "rediss://u:a%40b@redis.team.svc"),
        ("redis+sentinel://a:1,b,c.x.svc/main/5", "redis+sentinel://a.team.svc:1,b.team.svc,c.x.svc/main/5"),
        ("redis+cluster://a:7,b:8", "redis+cluster://a.team.svc:7,b.team.svc:8"),
        ("redis://localhost", "redis://localhost"),
        ("redis://", "redis://"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
    ],
)
def test_settings_of_a_namespace_have_full_names(url: str, full: str) -> None:
    assert with_namespace(url, "team") == full
    settings = RedisSettings(url, namespace="team")
    assert settings.url == full
    assert RedisSettings(full, namespace="team") == settings
    assert RedisSettings(url).url == url


@pytest.mark.parametrize(
    "hosts", ["redis-0.redis", "redis.data:6379", "redis,redis-0.redis:6380", "DB.example", "a_b.c-d"]
)
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "redis+sentinel"])
def test_a_name_with_one_dot_is_refused_in_a_namespace(scheme: str, hosts: str) -> None:
    url = f"{scheme}://user:s.ecret@{hosts}" + ("/main" if scheme.endswith("sentinel") else "")
    if "," in hosts and "+" not in scheme:
        return
    with pytest.raises(
        ValueError, match=r"one dot leads to different servers.*write SERVICE\.NAMESPACE\.svc"
    ) as refused:
        RedisSettings(url, namespace="team")
    assert "ecret" not in str(refused.value)
    assert RedisSettings(url).url == url


@pytest.mark.parametrize(
    "host",
    ["redis.data.svc", "redis-0.redis.team.svc", "db.example.", "127.1", "10.0.0.1", "[::1]", "db."],
)
def test_names_that_mean_the_same_everywhere_stay_as_they_are(host: str) -> None:
    url = f"redis://a.b:c.d@{host}:6379"
    assert with_namespace(url, "team") == url
