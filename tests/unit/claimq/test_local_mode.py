"""Which state directory is believed: one of this user that no other may write, with its lock held."""

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import claimq.blocking
from claimq import NoServer
from claimq.address import local_mode
from claimq.address.server_parts import SERVER_PARTS
from claimq.redis_store.default_server import found_settings, settings_from
from claimq.tasks import App
from claimq_admin.errors import CommandError, LocalModeError
from claimq_admin.reads.queue_reads import local_decisions
from claimq_admin.server_choice import choose
from claimq_local import discovery
from claimq_local.state_directory import StateDirectory

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")
STRANGER = 54321
URL = "redis://attacker.example:6379/0"


@pytest.fixture(autouse=True)
def _no_settings_of_the_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("CLAIMQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, two below the one that holds the state directory."""
    below = tmp_path / "project/src"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return below


@pytest.fixture
def held(tmp_path: Path, here: Path) -> Iterator[Path]:
    """A state directory above the working directory: its lock is held, and it names a server."""
    found = StateDirectory(tmp_path / ".claimq")
    found.hold()
    found.state_file.write_text(json.dumps({"queues": {"q": URL}}))
    yield found.path
    found.release()


def test_the_nearest_running_local_mode_is_the_server(held: Path) -> None:
    assert found_settings({}).url == URL
    with claimq.blocking.connect():
        pass  # nothing is sent before the first call


def test_a_program_cannot_use_a_queue_that_the_local_mode_does_not_have(held: Path) -> None:
    """It would put items into another project's local mode, where no worker takes them and no list has them."""
    missing = re.escape(
        f"the `claimq up` of {held} has no queue mail, only q; start `claimq up` with a manifest that has it, or use "
        f"this server without a manifest: export CLAIMQ_REDIS_URL=$(claimq url --data {held})"
    )
    with claimq.blocking.connect() as server:
        assert server.queue("q").name == "q"
        with pytest.raises(NoServer, match=missing):
            server.queue("mail")
        with pytest.raises(NoServer, match=missing):
            server.enqueue({"q": ["a"], "mail": ["a"]})
        (held / "state.json").write_text(json.dumps({"queues": {"q": URL, "mail": URL}}))
        assert server.queue("mail").name == "mail"  # of the manifest with which it was started again


async def test_tasks_are_not_put_into_a_local_mode_without_their_queue(held: Path) -> None:
    app = App("mail")
    task = app.task(print)
    before = threading.enumerate()
    for enqueue in (asyncio.to_thread(task.enqueue, "a"), task.enqueue_async("a"), app.run_async()):
        with pytest.raises(NoServer, match="has no queue mail, only q"):
            await enqueue
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert "claimq" not in left


async def test_no_item_goes_to_another_project_while_the_own_local_mode_starts(
    here: Path, tmp_path: Path
) -> None:
    """The other one has a queue of the same name, and serves it already."""
    other, own = StateDirectory(tmp_path / "other/.claimq"), StateDirectory(here / ".claimq")
    other.hold()
    other.state_file.write_text(json.dumps({"queues": {"q": URL}}))
    discovery.announce(other)
    assert found_settings({}).url == URL
    own.hold()
    task = App("q").task(print)
    for enqueue in (
        asyncio.to_thread(claimq.blocking.connect),
        asyncio.to_thread(task.enqueue, "a"),
        task.enqueue_async("a"),
    ):
        with pytest.raises(NoServer, match="still starting; try again in a moment"):
            await enqueue
    own.state_file.write_text(json.dumps({"queues": {"q": "redis://own/0"}}))
    assert found_settings({}).url == "redis://own/0"
    own.release()
    other.release()


def test_decisions_of_a_local_mode_are_about_the_queues_of_its_server(held: Path) -> None:
    decisions = {"q": {"rule": "Arrivals"}, "mail": {"rule": "Arrivals"}}
    state = {"queues": {"q": URL, "mail": "redis://other/0"}, "decisions": decisions}
    (held / "state.json").write_text(json.dumps(state))
    assert [sorted(local_decisions(held, url)) for url in ("", URL, "redis://none/0")] == [
        ["mail", "q"],
        ["q"],
        [],
    ]


async def test_no_item_goes_to_another_project_after_the_own_local_mode_has_ended(
    here: Path, tmp_path: Path
) -> None:
    other, own = StateDirectory(tmp_path / "an other/.claimq"), StateDirectory(here.parent / ".claimq")
    other.hold()
    other.state_file.write_text(json.dumps({"queues": {"q": URL}}))
    discovery.announce(other)
    own.hold()
    own.release()
    missing = re.escape(
        f"the `claimq up` of {own.path} is not running; start it, or use that of {other.path}: "
        f"export CLAIMQ_REDIS_URL=$(claimq url --data '{other.path}')"
    )
    for find in (found_settings, lambda: choose(None, None, "q")):
        with pytest.raises((NoServer, CommandError), match=missing):
            find()
    assert choose(None, other.path, "q").settings.url == URL
    with pytest.raises(
        CommandError, match=f"no `claimq up` is running in {own.path}; start it, or omit --data"
    ):
        choose(None, own.path, "q")
    other.release()
    assert local_mode.running_for_program() == []
    above = StateDirectory(own.path.parent.parent / ".claimq")
    above.hold()
    with pytest.raises(NoServer, match=f"use that of {re.escape(str(above.path))}: "):
        found_settings({})
    above.release()


def test_a_server_that_the_program_names_may_have_any_queue(held: Path) -> None:
    with claimq.blocking.connect(URL) as server:
        assert server.queue("mail").name == "mail"


def test_the_environment_comes_before_a_local_mode(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "CLAIMQ_REDIS_URL": "redis://db/1",
        "CLAIMQ_REDIS_USERNAME": "u",
        "CLAIMQ_REDIS_PASSWORD": "p",
    }
    found = found_settings(variables)
    assert (found.url, found.username, found.password) == ("redis://db/1", "u", "p")


def test_a_program_reaches_the_server_that_a_sidecar_reaches(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s\n")
    variables = {
        "CLAIMQ_REDIS_URL": "redis://a:26379,b.example.com:26379/2",
        "CLAIMQ_REDIS_SENTINEL_MASTER": "main",
        "CLAIMQ_REDIS_SENTINEL_USERNAME": "u",
        "CLAIMQ_REDIS_SENTINEL_PASSWORD_FILE": str(tmp_path / "password"),
        "CLAIMQ_REDIS_NAMESPACE": "media",
    }
    settings = found_settings(variables)
    assert settings.url == "redis+sentinel://a.media.svc:26379,b.example.com:26379/main/2"
    assert (settings.sentinel_username, settings.sentinel_password) == ("u", "s")
    cluster = {"CLAIMQ_REDIS_URL": "redis://a:7000", "CLAIMQ_REDIS_CLUSTER": "true"}
    assert found_settings(cluster).url == "redis+cluster://a:7000"
    with pytest.raises(ValueError, match='CLAIMQ_REDIS_CLUSTER is "yes"; give true or false'):
        found_settings(cluster | {"CLAIMQ_REDIS_CLUSTER": "yes"})
    with pytest.raises(ValueError, match="CLAIMQ_REDIS_PASSWORD is set beside CLAIMQ_REDIS_PASSWORD_FILE"):
        found_settings(variables | {"CLAIMQ_REDIS_PASSWORD": "p", "CLAIMQ_REDIS_PASSWORD_FILE": "/x"})


def test_a_url_that_is_given_needs_nothing_that_the_environment_says_of_another() -> None:
    environ = {
        "CLAIMQ_REDIS_URL_FILE": "/nowhere",
        "CLAIMQ_REDIS_CLUSTER": "true",
        "CLAIMQ_REDIS_NAMESPACE": "media",
        "CLAIMQ_REDIS_PASSWORD": "p",
    }
    settings = settings_from(environ, url="redis://a:6379/3", retry_for=2.0)
    assert settings == claimq.RedisSettings("redis://a:6379/3", password="p", retry_for=2.0)


def test_each_part_of_a_server_is_a_setting_or_in_its_url() -> None:
    names = {field.name for field in fields(claimq.RedisSettings)}
    assert {part.name for part in SERVER_PARTS} - names == {"cluster", "sentinel_master"}


@AS_ROOT
@pytest.mark.parametrize("part", ["", "state.json", "lock"])
def test_a_directory_or_file_of_another_user_is_not_believed(held: Path, part: str) -> None:
    os.chown(held / part, STRANGER, STRANGER)
    with pytest.raises(NoServer):
        found_settings({"CLAIMQ_REDIS_PASSWORD": "secret"})


@pytest.mark.parametrize("part", ["", "state.json", "lock"])
def test_a_directory_or_file_that_others_may_write_is_not_believed(held: Path, part: str) -> None:
    (held / part).chmod(0o777)
    with pytest.raises(NoServer):
        found_settings({})


@AS_ROOT
def test_a_link_of_another_user_is_not_followed(held: Path, here: Path) -> None:
    link = here / ".claimq"
    link.symlink_to(held)
    assert local_mode.running_near() == [link]
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    assert local_mode.running_near() == [held]


def test_a_state_file_that_is_a_link_is_not_followed(held: Path, tmp_path: Path) -> None:
    (held / "state.json").rename(tmp_path / "elsewhere")
    (held / "state.json").symlink_to(tmp_path / "elsewhere")
    assert local_mode.read_state(held) is None


def test_local_mode_does_not_begin_where_others_may_write(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(
        LocalModeError, match=r"others may write .*chmod go-w .* or give another directory with --data"
    ):
        StateDirectory(place).hold()


def test_without_any_server_the_error_names_the_ways_to_give_one(here: Path) -> None:
    with pytest.raises(
        NoServer, match="give a URL, set CLAIMQ_REDIS_URL, or start `claimq up -f FILE` first"
    ):
        claimq.connect()


def test_several_servers_are_not_guessed_between(held: Path) -> None:
    (held / "state.json").write_text(json.dumps({"queues": {"a": "redis://one/0", "b": "redis://two/0"}}))
    with pytest.raises(
        NoServer, match=r"`claimq up` runs with 2 servers; give the URL of one .`claimq url NAME`"
    ):
        claimq.connect()


@pytest.mark.parametrize("text", ["[]", "{", '{"queues": 3}', '{"queues": {"q": 3}}', "[" * 100_000])
def test_a_state_file_that_is_none_is_no_server(held: Path, text: str) -> None:
    (held / "state.json").write_text(text)
    with pytest.raises(NoServer, match="still starting"):
        claimq.connect()
