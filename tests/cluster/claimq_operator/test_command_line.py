"""The command line finds a queue by its ReliableQueue, on a real API server; its Secrets are read by the user."""

import json
from typing import Any

import pytest

from testkit.kubernetes.operator_world import World
from testkit.waiting import eventually_sync

PASSWORD = "S3CRET-canary"
PLUGIN = ("-c", "from claimq_cli.__main__ import kubectl_plugin; kubectl_plugin()")


def result(world: World, *arguments: str) -> Any:
    done = world.claimq(f"--namespace={world.namespace}", "--output=json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def create_secret(world: World, *entries: str) -> None:
    words = [f"--from-literal={entry}" for entry in entries]
    world.api.kubectl("create", "secret", "generic", "db", "-n", world.namespace, *words)


@pytest.fixture
def protected(world: World) -> World:
    """The world's server has a user `ann` with a password, and the queue `thumbs` uses it."""
    world.redis.call("ACL", "SETUSER", "ann", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    redis = {"url": world.redis.tcp_url, "user": "ann", "passwordSecretRef": {"name": "db"}}
    world.queue("thumbs", redis=redis)
    return world


def test_a_queue_is_found_by_its_reliable_queue(world: World) -> None:
    world.queue("thumbs")
    world.queue("videos", queueName=f"{world.namespace}.films")
    assert len(result(world, "enqueue", "videos", "a", "b")["ids"]) == 2
    assert result(world, "status", "videos")["lengths"]["main"] == 2
    assert [row["item"]["text"] for row in result(world, "items", "videos", "main")["items"]] == ["a", "b"]
    shown = {one["queue"]: one["lengths"]["main"] for one in result(world, "status")["queues"]}
    assert shown == {"thumbs": 0, "videos": 2}
    assert result(world, "items", "videos", "failed")["length"] == 0
    films = world.claimq("status", f"{world.namespace}.films", "--redis", world.redis.tcp_url, "-o", "json")
    assert json.loads(films.stdout)["lengths"]["main"] == 2


def test_queues_on_several_servers_are_shown_together(world: World) -> None:
    world.queue("thumbs")
    world.queue("videos", redis={"url": world.redis.tcp_url.replace("/0", "/1")})
    result(world, "enqueue", "videos", "a")
    shown = {one["queue"]: one["lengths"]["main"] for one in result(world, "status")["queues"]}
    assert shown == {"thumbs": 0, "videos": 1}
    refused = world.claimq("web", "-n", world.namespace)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "use 2 servers; give the name of one" in refused.stderr


def test_the_password_comes_from_the_secret(protected: World) -> None:
    create_secret(protected, f"password={PASSWORD}", "hosts=127.0.0.1")
    result(protected, "enqueue", "thumbs", "a")
    assert result(protected, "status", "thumbs")["lengths"]["main"] == 1
    shown = protected.claimq("url", "thumbs", "-n", protected.namespace)
    assert shown.returncode == 2
    assert PASSWORD not in shown.stdout + shown.stderr


def test_a_password_is_sent_only_where_its_secret_or_the_operator_allows(protected: World) -> None:
    create_secret(protected, f"password={PASSWORD}", "hosts=redis.elsewhere")
    refused = protected.claimq("status", "thumbs", "-n", protected.namespace)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert 'the Secret "db" does not allow its password to be sent to spec.redis.url' in refused.stderr
    # A setting of the operator allows the host. The status says so, but every user who may write it could.
    granted = {"CLAIMQ_PASSWORD_HOSTS": f"{protected.namespace}=127.0.0.1"}
    protected.operator(**granted)
    eventually_sync(lambda: protected.condition("RedisReachable") == "True ReachableWithWarnings")
    assert protected.claimq("status", "thumbs", "-n", protected.namespace).returncode == 4
    allowed = protected.claimq("status", "thumbs", "-n", protected.namespace, environment=granted)
    assert (allowed.returncode, allowed.stderr) == (0, "")
    wrong = protected.claimq(
        "status", "thumbs", "-n", protected.namespace, environment={"CLAIMQ_PASSWORD_HOSTS": "x"}
    )
    assert (wrong.returncode, "CLAIMQ_PASSWORD_HOSTS" in wrong.stderr) == (2, True)


def test_a_queue_of_another_object_is_not_used(world: World) -> None:
    """A ReliableQueue with the name of another one's queue, whose status says that all is well."""
    world.queue("thumbs")
    world.operator()
    eventually_sync(lambda: world.condition("RedisReachable").startswith("True"))
    world.queue("thief", queueName=f"{world.namespace}.thumbs")
    refused = world.claimq("-n", world.namespace, "flush", "thief", "--yes")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert f"belongs to the ReliableQueue {world.namespace}/thumbs" in refused.stderr
    done = world.claimq("status", "-n", world.namespace, "-o", "json")
    assert [one["queue"] for one in json.loads(done.stdout)["queues"]] == ["thumbs"]
    checked = world.claimq("doctor", "-n", world.namespace)
    assert "problem" in next(line for line in checked.stdout.splitlines() if "thief: the queue" in line)


def test_a_queue_that_cannot_be_used_does_not_hide_the_others(protected: World) -> None:
    protected.queue("videos")
    done = protected.claimq("status", "-n", protected.namespace, "-o", "json")
    assert [one["queue"] for one in json.loads(done.stdout)["queues"]] == ["videos"]
    (error,) = done.stderr.splitlines()
    assert error.startswith("claimq: thumbs: ")
    assert 'secrets "db" not found' in error


def test_a_server_that_does_not_answer_does_not_hide_the_others(world: World) -> None:
    world.queue("thumbs", redis={"url": "redis://127.0.0.1:1/0"})
    absent = world.claimq("status", "-n", world.namespace)
    assert (absent.returncode, absent.stdout) == (3, "")
    world.queue("videos")
    for command in ("status", "queues"):
        done = world.claimq(command, "-n", world.namespace, "-o", "json")
        assert [one["queue"] for one in json.loads(done.stdout)["queues"]] == ["videos"]
        (error,) = done.stderr.splitlines()
        assert error.startswith("claimq: thumbs: ")
        assert "no answer from the server" in error


def test_what_is_missing_is_one_line(protected: World) -> None:
    absent = protected.claimq("status", "thumbnails", "-n", protected.namespace)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert 'reliablequeues.claimq.dev "thumbnails" not found' in absent.stderr
    without_secret = protected.claimq("status", "thumbs", "-n", protected.namespace)
    assert (without_secret.returncode, without_secret.stdout) == (1, "")
    assert 'secrets "db" not found' in without_secret.stderr
    create_secret(protected, "other=1")
    without_key = protected.claimq("status", "thumbs", "-n", protected.namespace)
    assert 'the Secret "db" has no key "password"' in without_key.stderr
    empty = protected.claimq("status", "-n", "default")
    assert "the namespace has no ReliableQueue" in empty.stderr
    for done in (absent, without_secret, without_key, empty):
        assert len(done.stderr.splitlines()) == 1


def test_the_plugin_of_kubectl_uses_the_current_namespace(world: World) -> None:
    world.queue("thumbs")
    result(world, "enqueue", "thumbs", "a")
    help_text = world.claimq("--help", program=PLUGIN).stdout
    assert help_text.startswith("Usage: kubectl claimq ")
    elsewhere = world.claimq("status", "thumbs", program=PLUGIN)  # the current namespace is default
    assert 'reliablequeues.claimq.dev "thumbs" not found' in elsewhere.stderr
    done = world.claimq("-n", world.namespace, "status", "thumbs", "-o", "json", program=PLUGIN)
    assert json.loads(done.stdout)["queue"] == "thumbs"
    by_url = world.claimq("queues", "--redis", world.redis.tcp_url, program=PLUGIN)
    assert by_url.returncode == 0
    assert world.claimq("validate", "--help", program=PLUGIN).returncode == 0


def test_names_of_reliable_queues_are_completed(world: World) -> None:
    world.queue("thumbs")
    world.queue("videos")
    words = f"claimq -n {world.namespace} status "
    environment = {"_CLAIMQ_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"}
    names = ["plain,thumbs", "plain,videos"]
    eventually_sync(  # a machine that is too busy to answer in two seconds completes nothing
        lambda: world.claimq(environment=environment).stdout.split() == names
    )
