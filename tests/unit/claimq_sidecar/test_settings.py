"""Settings: everything from the environment, every problem at once."""

from pathlib import Path

import pytest

from claimq_process.environment import InvalidSettings
from claimq_process.push import PushMode
from claimq_sidecar.settings import PushSettings, SidecarSettings, unknown_variables

GOOD = {"CLAIMQ_REDIS_URL": "redis://u:topsecret@localhost:6379/0", "CLAIMQ_QUEUE": "thumbnails"}


def problems(**changes: str) -> list[str]:
    with pytest.raises(InvalidSettings) as caught:
        SidecarSettings.from_environment({**GOOD, **changes})
    return list(caught.value.problems)


def test_url_and_queue_are_enough() -> None:
    settings = SidecarSettings.from_environment(GOOD)
    assert settings.queue == "thumbnails"
    assert settings.socket == Path("/run/claimq/claimq.sock")
    assert (settings.socket_mode, settings.health_host, settings.health_port) == (0o660, "127.0.0.1", 9464)
    assert (settings.drain_timeout, settings.processing_timeout) == (25.0, None)
    assert settings.concurrency is None
    assert (settings.max_body, settings.log_level) == (16 * 1024 * 1024, "info")
    assert settings.redis.settings(retry_for=1).url == GOOD["CLAIMQ_REDIS_URL"]


def test_two_sidecars_on_a_host_have_names_of_their_own() -> None:
    assert SidecarSettings.from_environment(GOOD).worker != SidecarSettings.from_environment(GOOD).worker


def test_every_variable_has_its_effect() -> None:
    settings = SidecarSettings.from_environment(
        GOOD
        | {
            "CLAIMQ_WORKER": "pod-1",
            "CLAIMQ_SOCKET": "/x/s",
            "CLAIMQ_SOCKET_MODE": "0600",
            "CLAIMQ_HEALTH_HOST": "0.0.0.0",
            "CLAIMQ_HEALTH_PORT": "0",
            "CLAIMQ_DRAIN_TIMEOUT": "0s",
            "CLAIMQ_PROCESSING_TIMEOUT": "1h30m",
            "CLAIMQ_CONCURRENCY": "20",
            "CLAIMQ_CLAIM_AHEAD": "0",
            "CLAIMQ_MAX_BODY": "1Mi",
            "CLAIMQ_LOG_LEVEL": "DEBUG",
            "CLAIMQ_REDIS_USERNAME": "app",
            "CLAIMQ_REDIS_PASSWORD": "p",
            "CLAIMQ_LEAVE_AT_SIGTERM": "true",
            "CLAIMQ_LIFECYCLE_KEY": "k",
        }
    )
    assert settings.lifecycle_key == "k"
    assert settings.leaves_at_sigterm
    assert (settings.worker, settings.socket, settings.socket_mode) == ("pod-1", Path("/x/s"), 0o600)
    assert (settings.health_host, settings.health_port) == ("0.0.0.0", 0)
    assert (settings.drain_timeout, settings.processing_timeout) == (0.0, 5400.0)
    assert (settings.concurrency, settings.claim_ahead) == (20, 0)
    assert (settings.max_body, settings.log_level) == (1024 * 1024, "debug")
    connection = settings.redis.settings()
    assert (connection.username, connection.password) == ("app", "p")


def test_an_app_that_listens_gets_one_item_at_a_time_by_default() -> None:
    settings = SidecarSettings.from_environment({**GOOD, "CLAIMQ_PUSH_PORT": "8080"})
    assert settings.push == PushSettings(8080, None)
    assert settings.concurrency == 1
    assert SidecarSettings.from_environment(GOOD).push is None


def test_every_variable_of_pushes_has_its_effect() -> None:
    settings = SidecarSettings.from_environment(
        GOOD
        | {
            "CLAIMQ_CONCURRENCY": "32",
            "CLAIMQ_PUSH_SOCKET": "/x/app",
            "CLAIMQ_PUSH_PATH": "/items?a=b",
            "CLAIMQ_PUSH_MODE": "batched",
            "CLAIMQ_PUSH_BATCH_SIZE": "8",
            "CLAIMQ_PUSH_TIMEOUT": "1500ms",
            "CLAIMQ_PUSH_PROBE_PATH": "/up",
            "CLAIMQ_PUSH_RETRY_CLIENT_ERRORS": "true",
        }
    )
    assert settings.push == PushSettings(
        None, Path("/x/app"), "/items?a=b", PushMode.BATCHED, 8, 1.5, "/up", retries_client_errors=True
    )


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"CLAIMQ_PUSH_PORT": "80", "CLAIMQ_PUSH_SOCKET": "/x"}, "is set beside CLAIMQ_PUSH_PORT"),
        ({"CLAIMQ_PUSH_MODE": "binary"}, "does nothing without the address of the app"),
        ({"CLAIMQ_PUSH_SOCKET": "app"}, "give an absolute path"),
        ({"CLAIMQ_PUSH_PORT": "80", "CLAIMQ_PUSH_PATH": "a b"}, "a path of printable ASCII"),
        ({"CLAIMQ_PUSH_PORT": "80", "CLAIMQ_PUSH_MODE": "xml"}, "binary, structured, batched"),
        ({"CLAIMQ_PUSH_PORT": "80", "CLAIMQ_PUSH_BATCH_SIZE": "2"}, "CLAIMQ_PUSH_MODE is binary"),
    ],
)
def test_settings_of_pushes_that_do_not_go_together_are_refused(variables: dict[str, str], says: str) -> None:
    (problem,) = problems(**variables)
    assert says in problem


def test_all_problems_are_reported_at_once_each_with_its_variable() -> None:
    with pytest.raises(InvalidSettings) as caught:
        SidecarSettings.from_environment(
            {"CLAIMQ_HEALTH_PORT": "http", "CLAIMQ_DRAIN_TIMEOUT": "25", "CLAIMQ_LOG_LEVEL": "loud"}
        )
    found = caught.value.problems
    assert [line.partition(":")[0] for line in found] == [
        "CLAIMQ_REDIS_URL",
        "CLAIMQ_QUEUE",
        "CLAIMQ_HEALTH_PORT",
        "CLAIMQ_DRAIN_TIMEOUT",
        "CLAIMQ_LOG_LEVEL",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("CLAIMQ_REDIS_URL", "http://x", "write one of redis://"),
        ("CLAIMQ_REDIS_URL", "", "is not set; give the server's URL"),
        ("CLAIMQ_REDIS_URL_FILE", "/nowhere/url", "is set beside"),
        ("CLAIMQ_QUEUE", "a{b}", "may only have letters"),
        ("CLAIMQ_QUEUE", "  ", "is not set; give the queue's name"),
        ("CLAIMQ_WORKER", "a/b", "cannot name a worker"),
        ("CLAIMQ_SOCKET", "run/s", "give an absolute path"),
        ("CLAIMQ_SOCKET", "/" + "s" * 107, "has 108 bytes"),
        ("CLAIMQ_SOCKET_MODE", "rw", "permissions in octal"),
        ("CLAIMQ_SOCKET_MODE", "0888", "permissions in octal"),
        ("CLAIMQ_HEALTH_PORT", "65536", "a port from 1 to 65535"),
        ("CLAIMQ_HEALTH_PORT", "-1", "a port from 1 to 65535"),
        ("CLAIMQ_DRAIN_TIMEOUT", "25", 'write "25s" for seconds'),
        ("CLAIMQ_PROCESSING_TIMEOUT", "0s", "omit it for no limit"),
        ("CLAIMQ_CONCURRENCY", "0", "from 1 to 1000, or omit it for no limit"),
        ("CLAIMQ_CONCURRENCY", "1001", "from 1 to 1000"),
        ("CLAIMQ_MAX_BODY", "16mb", 'write "16Mi"'),
        ("CLAIMQ_MAX_BODY", "1", "at least 1Ki"),
        ("CLAIMQ_LOG_LEVEL", "trace", "debug, info, warn, error"),
        ("CLAIMQ_REDIS_CA_FILE", "/nowhere/ca.pem", "cannot be read (No such file or directory)"),
        ("CLAIMQ_REDIS_PASSWORD_FILE", "/nowhere/pw", "mount it or correct the path"),
    ],
)
def test_a_bad_value_is_refused_with_what_to_write_instead(variable: str, value: str, says: str) -> None:
    found = problems(**{variable: value})
    assert any(says in line for line in found), found
    assert any(variable in line for line in found)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    (tmp_path / "cert").write_text("x")
    assert "give both or neither" in problems(CLAIMQ_REDIS_CERT_FILE=str(tmp_path / "cert"))[0]


def test_no_problem_and_no_representation_shows_a_secret() -> None:
    assert "topsecret" not in repr(SidecarSettings.from_environment(GOOD))
    found = problems(CLAIMQ_REDIS_URL="rediss+what://u:topsecret@h", CLAIMQ_REDIS_PASSWORD="topsecret")
    assert "topsecret" not in "".join(found)


def test_secrets_in_files_are_read_again(tmp_path: Path) -> None:
    url, password = tmp_path / "url", tmp_path / "password"
    url.write_text("redis://h1:1/0\n")
    password.write_text("one\n")
    settings = SidecarSettings.from_environment(
        {"CLAIMQ_REDIS_URL_FILE": str(url), "CLAIMQ_QUEUE": "q", "CLAIMQ_REDIS_PASSWORD_FILE": str(password)}
    )
    assert settings.redis.settings(retry_for=1).password == "one"
    password.write_text("two")
    url.write_text("redis://h2:1/0")
    fresh = settings.redis.settings(retry_for=1)
    assert (fresh.password, fresh.url) == ("two", "redis://h2:1/0")


def test_variables_that_mean_nothing_are_found_but_not_those_of_kubernetes() -> None:
    environ = GOOD | {"CLAIMQ_QEUE": "x", "CLAIMQ_SERVICE_HOST": "1", "CLAIMQ_PORT_80_TCP": "1", "PATH": ""}
    assert unknown_variables(environ) == ["CLAIMQ_QEUE"]
