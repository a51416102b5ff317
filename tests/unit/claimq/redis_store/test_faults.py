"""The client library's exceptions as ours: what to try later, what a person must change, and what."""

import re
import socket

import pytest
from redis import exceptions as client

from claimq.errors import (
    ClaimqError,
    CrossSlot,
    RightMissing,
    ScriptsRefused,
    StoreFull,
    StoreMisused,
    StoreUnavailable,
    UnknownReply,
    WrongKeyType,
)
from claimq.redis_store.causes import COMMANDS
from claimq.redis_store.faults import is_unknown_script, is_wrong_type, translate, wrong_types
from testkit.queues import roles

LATER: list[Exception] = [
    client.ConnectionError("Connection closed by server."),
    client.TimeoutError("Timeout reading from socket"),
    client.BusyLoadingError("Redis is loading the dataset in memory"),
    client.ReadOnlyError("You can't write against a read only replica."),
    client.MasterDownError("Link with MASTER is down"),
    client.ClusterDownError("The cluster is down"),
    client.TryAgainError("Multiple keys request during rehashing of slot"),
    client.MaxConnectionsError("Too many connections"),
    client.RedisClusterException("Redis Cluster cannot be connected"),
    client.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
    client.ResponseError("NOREPLICAS Not enough good replicas to write."),
    client.ResponseError("BUSY Redis is busy running a script."),
    client.ResponseError("UNBLOCKED force unblock from blocking operation"),
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
    FileNotFoundError(2, "No such file or directory"),
    BrokenPipeError(32, "Broken pipe"),
    EOFError(),
    TimeoutError(),
    OSError("no route to host"),
]
PERSON: list[Exception] = [
    client.AuthenticationError("Authentication required."),
    client.AuthenticationError("invalid username-password pair or user is disabled."),
    client.NoPermissionError("this user has no permissions to run the 'evalsha' command"),
    client.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    client.ResponseError("unknown command 'INFO', with args beginning with:"),
    client.ResponseError("ERR something unheard of"),
    client.DataError("Invalid input"),
]


SCRIPTS = [
    client.ResponseError("unknown command 'EVALSHA', with args beginning with:"),
    client.ResponseError("Error compiling script (new function): user_script:1: unexpected symbol near '#'"),
    client.ResponseError("Wrong number of args for redis.acl_check_cmd() script: 4f, on @user_script:38."),
    client.ResponseError("Invalid command passed to redis.acl_check_cmd() script: 4f, on @user_script:38."),
    client.ResponseError("Unknown Redis command called from script script: 4f, on @user_script:9."),
    client.ResponseError("user_script:9: attempt to call field 'acl_check_cmd' (a nil value)"),
    client.ResponseError("Unexpected flag in script shebang: flags=allow-oom"),
]


@pytest.mark.parametrize("error", LATER, ids=repr)
def test_what_passes_by_itself_is_unavailable(error: Exception) -> None:
    assert type(translate(error, doing="claim")) is StoreUnavailable


@pytest.mark.parametrize("error", PERSON, ids=repr)
def test_what_a_person_must_change_is_misused(error: Exception) -> None:
    kinds = (StoreMisused, RightMissing, UnknownReply, WrongKeyType)
    assert type(translate(error, doing="claim")) in kinds


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (client.NoPermissionError("this user has no permissions to run the 'zadd' command"), RightMissing),
        (client.ResponseError("NOPERM No permissions to access a key"), RightMissing),
        (
            client.ResponseError(
                "ERR ACL failure in script: User bob has no permissions to run the 'lpush' command"
            ),
            RightMissing,
        ),
        (
            client.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
            WrongKeyType,
        ),
        (client.ResponseError("ERR user_script:1: WRONGTYPE Operation against a key"), WrongKeyType),
        (client.ResponseError("ERR something new"), UnknownReply),
        (client.AuthenticationError("WRONGPASS invalid username-password pair"), StoreMisused),
    ],
)
def test_a_fault_that_programs_ask_about_is_known_by_its_class(
    error: Exception, kind: type[StoreMisused]
) -> None:
    assert type(translate(error, doing="claim")) is kind


@pytest.mark.parametrize("error", SCRIPTS, ids=repr)
def test_a_server_that_cannot_run_the_scripts_refuses_them(error: Exception) -> None:
    assert type(translate(error, doing="claim")) is ScriptsRefused


def test_the_advice_follows_what_the_server_said() -> None:
    for said, advice in {
        client.ConnectionError("max number of clients reached"): "raise its maxclients",
        client.ResponseError("ERR max number of clients reached"): "raise its maxclients",
        client.ResponseError(
            "MISCONF Redis is configured to save RDB snapshots"
        ): "a snapshot or its append-only file",
        client.ResponseError(
            "unknown command 'TIME', with args beginning with: "
        ): r"renames the command.*TIME",
        client.ConnectionError("Error 1: [SSL: WRONG_VERSION_NUMBER] wrong version number"): "use redis://",
        client.ConnectionError("Error 1: [SSL] record layer failure"): "use redis://",
    }.items():
        assert re.search(advice, str(translate(said, doing="claim"))), said


@pytest.mark.parametrize("error", [*LATER, *PERSON, *SCRIPTS], ids=repr)
def test_every_message_begins_with_what_was_being_done(error: Exception) -> None:
    ours = translate(error, doing="claim")
    assert isinstance(ours, ClaimqError)
    assert str(ours).startswith("claim: ")
    assert len(str(ours)) > len("claim: ") + 20


@pytest.mark.parametrize(
    "error",
    [
        client.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        client.ResponseError(
            "OOM command not allowed when used memory > 'maxmemory'. script: 4f, on @user_script:1."
        ),
    ],
    ids=repr,
)
def test_a_full_server_is_full(error: Exception) -> None:
    assert type(translate(error, doing="enqueue")) is StoreFull


@pytest.mark.parametrize(
    "error",
    [
        client.ResponseError("CROSSSLOT Keys in request don't hash to the same slot"),
        client.ClusterCrossSlotError("Keys in request don't hash to the same slot"),
        client.RedisClusterException("EVALSHA - all keys must map to the same key slot"),
    ],
    ids=repr,
)
def test_queues_of_different_slots_are_named_in_the_error(error: Exception) -> None:
    assert type(translate(error, doing="enqueue")) is CrossSlot


FOREIGN = "canary-83b1"


@pytest.mark.parametrize(
    "kind", [*dict.fromkeys(type(error) for error in [*LATER, *PERSON]), client.InvalidResponse], ids=str
)
@pytest.mark.parametrize(
    "start", ["", "ERR ", "NOPERM ", "WRONGPASS ", "LOADING ", "OOM ", "CROSSSLOT ", "MOVED 1 "]
)
def test_nothing_that_a_server_replies_is_repeated(kind: type[Exception], start: str) -> None:
    for text in (f"{start}{FOREIGN}", f"{start}{FOREIGN} {start}", f"{start}can't run '{FOREIGN}' command"):
        inner = kind(text)
        wrapped = client.ConnectionError(inner)
        wrapped.__cause__ = inner
        for error in (inner, wrapped):
            assert FOREIGN not in str(translate(error, doing="claim"))


def test_no_host_is_repeated_and_the_system_says_what_failed() -> None:
    error = client.ConnectionError(f"Error 111 connecting to {FOREIGN}:6379. Connection refused.")
    error.__context__ = ConnectionRefusedError(111, f"Connect call failed ('{FOREIGN}', 6379)")
    assert str(translate(error, doing="PING")) == "PING: no answer from the server (Connection refused)"
    unknown = client.ConnectionError(f"Error -2 connecting to {FOREIGN}:6379.")
    unknown.__context__ = socket.gaierror(-2, f"{FOREIGN}: Name or service not known")
    assert "the name of the host cannot be resolved" in str(translate(unknown, doing="PING"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("this user has no permissions to run the 'hget' command", "(the command HGET)"),
        ("this user has no permissions to run the 'config|get' command", "(the command CONFIG)"),
        ("NOPERM this user has no permissions to run HSET on this queue", "(the command HSET)"),
        ("this user has no permissions to access one of the keys used as arguments", "(the keys)"),
    ],
)
def test_a_refused_right_is_named(text: str, named: str) -> None:
    assert str(translate(client.NoPermissionError(text), doing="claim")).endswith(named)


def test_every_documented_right_may_be_named() -> None:
    rights = {right.removeprefix("+").partition("|")[0] for right in roles.documented("operator")}
    assert rights <= COMMANDS


def test_an_error_without_text_is_named_by_its_class() -> None:
    assert "EOFError" in str(translate(EOFError(), doing="claim"))


def test_an_unknown_script_is_known_by_class_and_by_text() -> None:
    assert is_unknown_script(client.NoScriptError("No matching script. Please use EVAL."))
    assert is_unknown_script(client.ResponseError("NOSCRIPT No matching script."))
    assert not is_unknown_script(client.ResponseError("ERR no such key"))


def test_a_wrong_type_names_each_key_and_both_types() -> None:
    assert is_wrong_type(client.ResponseError("WRONGTYPE Operation against a key"))
    assert not is_wrong_type(None)
    foreign = wrong_types({"cq:{q}:main": (FOREIGN, "list")}, doing="claim")
    assert FOREIGN not in str(foreign)
    assert type(foreign) is WrongKeyType
    error = wrong_types({"cq:{q}:main": ("string", "list"), "cq:{q}:stats": ("set", "hash")}, doing="claim")
    assert str(error) == (
        "claim: a key of the queue is of another type: cq:{q}:main is a string and should be a list, "
        "cq:{q}:stats is a set and should be a hash; rename or delete it"
    )
