"""The fast path of the enqueue script writes and answers what the rest of the script would, or leaves the call to it.

Each call runs three times on the same state: the whole script, the script without its fast path, and the fast path
alone. The clock of these calls stands still.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from claimq.redis_store.scripts import script
from testkit.servers.contents import Contents, changes, contents
from testkit.servers.resp import Connection, Reply, ReplyError
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

SECONDS = 2_000_000_000
NOW = SECONDS * 1000 + 7
MAIN, OTHER, DELAYED = "cq:{q}:main", "cq:{other}:main", "cq:{q}:delayed"
STATS, CONFIG, CALLS, WAKE = "cq:{q}:stats", "cq:{q}:config", "cq:{q}:calls:instance", "cq:{q}:wake"
ENVELOPE = f"cq1 prefix-17 {NOW} - -\npayload"
RIGHTS = ("+hget", "+hmget", "+hset", "+llen", "+lpush", "+hincrby", "+pexpire", "+zadd", "+zrem")
FIRST, REST = "repeat\n", "until true\n"

WHOLE = script("enqueue").text.replace("redis.call('TIME')", f"{{'{SECONDS}', '7654'}}")
_HEAD, _, _TAIL = WHOLE.partition(FIRST)
_FAST, _, _GENERAL = _TAIL.partition(REST)
GENERAL = _HEAD + _GENERAL
FAST = f"{_HEAD}{FIRST}{_FAST}{REST}return 'left to the rest'"

Words = tuple[str | bytes, ...]
BOUND = {"bound": "1"}
"""What `configure` notes where the policy bounds the items that wait."""


@dataclass(frozen=True)
class Case:
    """What differs from the plain call on a queue in use: fields (None: not there), commands before, words, keys."""

    stats: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    last: str | None = f"5 {NOW - 1000} the last reply"
    before: tuple[Words, ...] = ()
    call: Words = ("instance", "0", "6")
    group: Words = ("1", "0", "-", "", "prefix-", "17", "1", b"payload")
    keys: tuple[str, ...] = (MAIN,)


@dataclass(frozen=True)
class End:
    """How a call ended: its reply or the code of its error, and what the server holds then (0 for an instant at which a
    key expires: that is counted by the server's clock)."""

    reply: Reply
    held: Contents


def run(server: Server, text: str, case: Case, *rights: str) -> End:
    """A call, made by a user with these rights if some are given."""
    server.call("FLUSHALL")
    process = server.call("EVAL", "return tostring(redis)", 0)
    assert isinstance(process, bytes)
    plain = {
        "server": process.decode(),
        "seen_at": f"{NOW - 900}",
        "seq": "41",
        "enqueued": "40",
        "largest": "5000",
    }
    for name, value in {**plain, **case.stats}.items():
        if value is not None:
            server.call("HSET", STATS, name, value)
    for name, value in case.config.items():
        server.call("HSET", CONFIG, name, value)
    if case.last is not None:
        server.call("HSET", CALLS, "0", case.last)
    for words in case.before:
        server.call(*words)
    connection = Connection(server.unix_path, PATIENCE)
    try:
        if rights:
            server.call(
                "ACL", "SETUSER", "limited", "reset", "on", ">password", "~cq:{q}:*", "+eval", *rights
            )
            connection.call("AUTH", "limited", "password")
        reply = connection.call("EVAL", text, len(case.keys), *case.keys, *case.call, *case.group)
    except ReplyError as error:
        reply = str(error).split()[0].encode()
    finally:
        connection.close()
    held = contents(server)
    return End(
        reply, {key: (kind, min(ends_at, 0), members) for key, (kind, ends_at, members) in held.items()}
    )


def is_fast(server: Server, case: Case, *rights: str) -> bool:
    """Whether the fast path serves a call. Asserts in any case that the script does as it would without it."""
    whole, general, fast = (run(server, text, case, *rights) for text in (WHOLE, GENERAL, FAST))
    assert whole.reply == general.reply
    assert changes(general.held, whole.held) == {}
    if fast.reply == b"left to the rest":
        return False
    assert fast == whole
    return isinstance(fast.reply, list)


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(before=(("LPUSH", MAIN, "bare", "payloads"), ("LPUSH", WAKE, "1"))),
        Case(stats={"client_items": "3", "clock_offset": "0", "keys": "1", "done": "12"}),
        Case(config={"max_payload": "7", "durability": "primary", "id_window_ms": "5"}),
        Case(stats={"seen_at": f"{NOW}"}),
        Case(group=("1", "0", "-", "", "prefix-", "17", "1", b"")),
        Case(keys=(MAIN, "cq:{q}:absent")),
        Case(last=f"5 {NOW - 600_000} "),
        Case(stats={"largest": str(len(ENVELOPE))}),
        Case(stats=BOUND, config={"max_waiting_items": "1", "max_waiting_per_client_items": ""}),
        Case(
            stats=BOUND,
            config={"max_waiting_items": "", "max_waiting_per_client_items": "1"},
            before=(("LPUSH", MAIN, "x"),),
        ),
        Case(
            stats={"client_items": "3"} | BOUND,
            config={"max_waiting_items": "4", "max_waiting_per_client_items": "1"},
        ),
        Case(
            stats=BOUND,
            config={"max_waiting_items": "4", "max_waiting_per_client_items": "1"},
            before=(("LPUSH", MAIN, "x", "y"), ("ZADD", DELAYED, "1", "z")),
        ),
    ],
)
def test_a_plain_item_for_a_queue_in_use_takes_the_fast_path(server: Server, case: Case) -> None:
    assert is_fast(server, case)


@pytest.mark.parametrize(
    "case",
    [
        Case(stats={"server": None}),
        Case(stats={"server": "table: 0x1"}),
        Case(stats={"seen_at": f"{NOW - 1000}"}),
        Case(stats={"seen_at": f"{NOW - 9000}"}),
        Case(stats={"seen_at": f"{NOW + 1}"}),
        Case(stats={"clock_offset": "-5"}),
        Case(stats={"clock_offset": "5"}),
        Case(stats={"levels": "1"}, before=(("LPUSH", "cq:{q}:high", "x"),)),
        Case(stats={"largest": str(len(ENVELOPE) - 1)}),
        Case(last=None),
        Case(last=f"6 {NOW - 1000} the same call"),
        Case(last=f"7 {NOW - 1000} a later call"),
        Case(last=f"5 {NOW - 600_001} "),
        Case(last="unreadable"),
        Case(config={"max_payload": "6"}),
        Case(config={"durability": "replicated"}),
        Case(config={"durability": "fsynced"}),
        Case(stats={"client_items": "3"} | BOUND, config={"max_waiting_items": "3"}),
        Case(
            stats=BOUND,
            config={"max_waiting_items": "2"},
            before=(("LPUSH", MAIN, "x"), ("ZADD", DELAYED, "1", "z")),
        ),
        Case(stats={"bound": "0 0 0 0 0 0"}, config={"max_waiting_bytes": "1000000"}),
        Case(stats=BOUND, config={"max_waiting_items": "9"}, before=(("SET", DELAYED, "no zset"),)),
        Case(keys=(MAIN, OTHER)),
        Case(keys=(MAIN, "cq:{q}:absent", OTHER)),
        Case(keys=(OTHER, MAIN), group=("2", "0", "-", "", "prefix-", "17", "1", b"payload")),
        Case(group=("1", "0", "ann", "", "prefix-", "17", "1", b"payload")),
        Case(group=("1", "0", "-", "+500", "prefix-", "17", "1", b"payload")),
        Case(group=("1", "0", "-", "", "", "17", "1", "own-id", b"payload")),
        Case(group=("1", "0", "-", "", "prefix-", "17", "-1", '{"max_requeues":3}', b"payload")),
        Case(group=("1", "0", "-", "", "prefix-", "17", "2", b"one", b"two")),
        Case(
            group=(
                "1",
                "0",
                "-",
                "",
                "prefix-",
                "17",
                "1",
                b"one",
                "1",
                "0",
                "-",
                "",
                "p-",
                "18",
                "1",
                b"two",
            )
        ),
        Case(group=("1", "0", "-", "", "prefix-", "many", "1", b"payload")),
        Case(group=("1", "0", "-", "", "", "17", "1", b"an id without a payload")),
        Case(group=("1", "0", "-", "", "prefix-", "17", "2", b"one of two")),
        Case(group=("1", "0", "-", "", "prefix-", "17", "-1", b"options without a payload")),
        Case(group=("1", "0", "-", "", "prefix-", "17", "0", b"payload")),
        Case(group=("2", "0", "-", "", "prefix-", "17", "1", b"payload")),
        Case(group=()),
        Case(call=("instance", "1", "6")),
    ],
)
def test_all_other_calls_are_left_to_the_rest(server: Server, case: Case) -> None:
    assert not is_fast(server, case)


@pytest.mark.parametrize("right", RIGHTS)
def test_a_refused_call_has_changed_nothing(server: Server, right: str) -> None:
    """The fast path needs fewer rights than the rest of the script."""
    assert is_fast(server, Case(), *RIGHTS)
    rest = [one for one in RIGHTS if one != right]
    whole, before = run(server, WHOLE, Case(), *rest), run(server, "return 'nothing'", Case(), *rest)
    if right in {"+hincrby", "+pexpire", "+zadd", "+zrem"}:
        assert isinstance(whole.reply, list)
        assert run(server, GENERAL, Case(), *rest) == replace(before, reply=b"NOPERM")
    else:
        assert whole.reply in {b"NOPERM", b"ERR"}
        assert whole.held == before.held


@pytest.mark.parametrize(
    "name", ["seq", "seen_at", "enqueued", "largest", "client_items", "clock_offset", "levels"]
)
def test_numbers_of_another_client_have_the_same_effect(server: Server, name: str) -> None:
    foreign = [
        "", " ", "x", "-1", "1.5", " 9 ", "0x10", "1e3", "1e16", "9e15", "1e400", "-1e400", "nan", "-0", "007",
    ]  # fmt: skip
    for value in [*foreign, None]:
        is_fast(server, Case(stats={name: value}))


@pytest.mark.parametrize("name", ["max_payload", "durability"])
def test_a_policy_of_another_client_has_the_same_effect(server: Server, name: str) -> None:
    foreign = [
        "", "x", "-1", "0", "0.5", "7.5", "1e3", "536870912", "536870913", "1e400", "nan", "REPLICATED",
    ]  # fmt: skip
    for value in foreign:
        for payload in (b"", b"payload"):
            plain = Case(config={name: value})
            is_fast(server, replace(plain, group=(*plain.group[:-1], payload)))


@pytest.mark.parametrize(
    "number", ["0", "-3", "-3.9999999999999996", "1e3", "1.5", "0x10", "9007199254740994", "nan", " 8"]
)
def test_numbers_of_calls_and_items_have_the_same_effect(server: Server, number: str) -> None:
    is_fast(server, Case(call=("instance", "0", number)))
    is_fast(server, Case(group=("1", "0", "-", "", "prefix-", number, "1", b"payload")))


@pytest.mark.parametrize("key", [MAIN, STATS, CONFIG, CALLS, WAKE])
@pytest.mark.parametrize("kind", [("SET", "{}", "x"), ("LPUSH", "{}", "x"), ("ZADD", "{}", "1", "x")])
def test_a_key_of_another_type_has_the_same_effect(server: Server, key: str, kind: Words) -> None:
    is_fast(server, Case(before=(("DEL", key), tuple(key if word == "{}" else word for word in kind))))


EXPONENTS = """
local function written(value)
  local digits, zeros = string.match(type(value) == 'number' and string.format('%d', value) or '', '^(%d)(0+)$')
  return zeros and #zeros > 7 and digits .. 'e+' .. #zeros or value
end
local function call_as_7_2(...)
  local words = {...}
  for i = 1, #words do words[i] = written(words[i]) end
  return redis.call(unpack(words))
end
"""
"""A server that writes the numbers that a script passes on as Redis 7.2.4 does: 100000000 as 1e+8."""


@pytest.mark.parametrize("text", [WHOLE, GENERAL], ids=["whole", "general"])
@pytest.mark.parametrize("count", [99_999_999, 2 * 10**14 - 1, 8_999_999_999_999_998])
def test_counters_are_stored_as_digits(server: Server, text: str, count: int) -> None:
    shebang, _, body = text.partition("\n")
    with_exponents = shebang + EXPONENTS + body.replace("redis.call(", "call_as_7_2(")
    end = run(server, with_exponents, Case(stats={"seq": str(count), "enqueued": str(count)}))
    assert isinstance(end.reply, list)
    assert end.reply[0] == b"OK"
    stored = server.call("HMGET", STATS, "seq", "enqueued")
    assert stored == [str(count + 1).encode()] * 2
