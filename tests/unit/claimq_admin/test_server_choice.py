"""Which settings are sent to which server."""

from pathlib import Path

import pytest

from claimq.redis_store.default_server import found_settings
from claimq_admin.errors import CommandError
from claimq_admin.server_choice import choose, settings_for, settings_for_other
from claimq_cli.program import run


def test_another_server_never_gets_the_password_of_the_queues_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLAIMQ_REDIS_USERNAME", "user")
    monkeypatch.setenv("CLAIMQ_REDIS_PASSWORD", "secret")
    monkeypatch.setenv("CLAIMQ_REDIS_CA_FILE", "ca.pem")
    other = settings_for_other("redis://old:6379/0")
    assert (other.username, other.password, other.ca_file) == (None, None, "ca.pem")
    assert settings_for("redis://new:6379/0").password == "secret"


URLS = [
    (["status", "q", "--redis"], "set CLAIMQ_REDIS_URL or CLAIMQ_REDIS_URL_FILE"),
    (["worker", "q", "--redis"], "set CLAIMQ_REDIS_URL or CLAIMQ_REDIS_URL_FILE"),
    (["up", "--redis"], "set CLAIMQ_REDIS_PASSWORD or CLAIMQ_REDIS_PASSWORD_FILE"),
    (["import", "q", "--from", "list:k", "--source"], "set CLAIMQ_SOURCE_URL"),
]


def warnings(words: list[str], url: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The warnings of a command, which stops since the database of the URL is no number."""
    with pytest.raises(SystemExit):
        run([*words, url, *(["--", "true"] if "worker" in words else [])])
    return [line for line in capsys.readouterr().err.splitlines() if "can see this password" in line]


@pytest.mark.parametrize(("words", "instead"), URLS)
def test_a_password_in_an_argument_is_warned_of(
    words: list[str],
    instead: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = warnings(words, "redis://:geheim@127.0.0.1:1/x", capsys)
    assert line.startswith(
        f"claimq: {words[-1]}: other users of this machine can see this password; {instead}"
    )
    assert "geheim" not in line
    for url in ("redis://user@127.0.0.1:1/x", "redis://127.0.0.1:1/x", "unix:///no/a:b@c?db=x"):
        assert warnings(words, url, capsys) == []


def test_a_password_before_the_command_is_warned_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    url = "redis://u:geheim@127.0.0.1:1/x"
    with pytest.raises(SystemExit):
        run(["--redis", url, "status", "q"])
    assert capsys.readouterr().err.count("can see this password") == 1


def test_a_url_comes_from_a_file_and_is_not_warned_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "url"
    file.write_text("redis://:geheim@db.example:6379/3\n")
    monkeypatch.delenv("CLAIMQ_REDIS_URL", raising=False)
    monkeypatch.setenv("CLAIMQ_REDIS_URL_FILE", str(file))
    assert choose(None, None, "q").settings.url == "redis://:geheim@db.example:6379/3"
    assert found_settings().url == "redis://:geheim@db.example:6379/3"
    with pytest.raises(SystemExit) as stopped:
        run(["url", "--show-password"])
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.out, printed.err) == (0, "redis://:geheim@db.example:6379/3\n", "")


@pytest.mark.parametrize(
    ("url", "content", "problem"),
    [
        ("redis://a", "redis://b", "CLAIMQ_REDIS_URL is set beside CLAIMQ_REDIS_URL_FILE; give one of them"),
        ("", " \n", "CLAIMQ_REDIS_URL_FILE names an empty file"),
        ("", None, "CLAIMQ_REDIS_URL_FILE cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    url: str, content: str | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("CLAIMQ_REDIS_URL", url)
    monkeypatch.setenv("CLAIMQ_REDIS_URL_FILE", str(file))
    with pytest.raises(CommandError, match=problem):
        choose(None, None, "q")
    with pytest.raises(ValueError, match=problem):
        found_settings()
