"""Request bodies to calls, without a server."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.consuming.engine.endings import Ending
from claimq_sidecar.http.bodies import (
    VERDICT_BODIES,
    Body,
    ClaimBody,
    EnqueueBody,
    NextBody,
    SessionBody,
    VerdictsBody,
)
from claimq_sidecar.http.body_problems import read_in_python
from claimq_sidecar.http.problems import Refusal
from claimq_sidecar.http.requests import (
    claim_request,
    enqueue_request,
    next_request,
    session_request,
    verdict_request,
    verdict_requests,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def test_an_empty_body_asks_for_one_item_and_waits_as_the_policy_says() -> None:
    request, encoding = claim_request(b"")
    assert (request.most, request.wait, request.session, encoding) == (1, None, None, "auto")


def test_a_whole_number_may_be_written_as_a_float() -> None:
    request, _ = claim_request(b'{"max": 2.0}')
    assert (request.most, type(request.most)) == (2, int)


def test_tokens_are_taken_once_in_their_order() -> None:
    request = verdict_request("done", raw({"tokens": ["w/2.aaaaaaaa", "w/1.aaaaaaaa", "w/2.aaaaaaaa"]}))
    assert request.tokens == ("w/2.aaaaaaaa", "w/1.aaaaaaaa")
    assert session_request(raw({"tokens": ["w/1.aaaaaaaa", "w/1.aaaaaaaa"]})) == (("w/1.aaaaaaaa",), False)


def test_failures_with_the_same_reason_share_a_round_trip() -> None:
    claims = [
        {"token": f"w/{number}.aaaaaaaa", "error": error} for number, error in ((1, "x"), (2, "y"), (3, "x"))
    ]
    request = verdict_requests(raw({"fail": claims}))["fail"]
    assert request.tokens == ("w/1.aaaaaaaa", "w/2.aaaaaaaa", "w/3.aaaaaaaa")
    assert [ending.claims for ending in request.endings] == [
        ("w/1.aaaaaaaa", "w/3.aaaaaaaa"),
        ("w/2.aaaaaaaa",),
    ]


def test_a_next_request_has_the_verdicts_and_the_claim() -> None:
    delayed = [
        {"token": "w/1.aaaaaaaa", "delay": 5},
        {"token": "w/2.aaaaaaaa"},
        {"token": "w/3.aaaaaaaa", "delay": 5},
    ]
    verdicts, claim, encoding = next_request(
        raw({"requeue": delayed, "done": [{"token": "w/4.aaaaaaaa"}], "max": 3})
    )
    assert list(verdicts) == ["done", "requeue"]
    assert verdicts["requeue"].tokens == ("w/1.aaaaaaaa", "w/2.aaaaaaaa", "w/3.aaaaaaaa")
    assert verdicts["requeue"].endings == (
        Ending(("w/1.aaaaaaaa", "w/3.aaaaaaaa"), delay=5.0),
        Ending(("w/2.aaaaaaaa",)),
    )
    assert (claim.most, claim.wait, encoding) == (3, None, "auto")


@given(JSON)
def test_a_json_payload_is_stored_as_what_it_means(value: object) -> None:
    (item,) = enqueue_request(raw({"items": [{"payload": value}]}))
    assert isinstance(item.payload, bytes)
    assert json.loads(item.payload) == value


@pytest.mark.parametrize(
    ("payload", "stored"),
    [
        (rb'"\ud800"', rb'"\ud800"'),
        (rb'["\ud800", "\u00e9"]', rb'["\ud800","\u00e9"]'),
        (rb'"\u00e9"', rb'"\u00e9"'),
        (b"1" * 400, b"1" * 400),
        (b"1e15", b"1e15"),
        (b"1e400", b"1e400"),
        (b"1.0", b"1.0"),
        (b'{"a": 1, "a": [ 2 ]}', b'{"a": 1, "a": [ 2 ]}'),
    ],
    ids=[
        "a lone surrogate",
        "and other text",
        "an escape",
        "a large number",
        "a float",
        "a number that is no double",
        "a whole float",
        "spaces and a repeated name",
    ],
)
def test_a_json_payload_is_stored_as_sent_unless_it_has_a_lone_surrogate(
    payload: bytes, stored: bytes
) -> None:
    (item,) = enqueue_request(b'{"items": [{"payload": %s}]}' % payload)
    assert item.payload == stored


def test_a_payload_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(Refusal, match="not UTF-8"):
        enqueue_request(b'{"items": [{"payload": "\xff"}]}')


def test_a_lone_surrogate_in_an_error_is_no_reason_to_refuse_it() -> None:
    request = verdict_request("fail", rb'{"tokens": ["w/1.aaaaaaaa"], "error": "no file a\udcff"}')
    assert request.endings[0].error == "no file a\udcff"


def test_a_deep_payload_is_stored_or_refused() -> None:
    reasons: set[str] = set()
    for depth in range(20_000, 900, -7):
        payload = b"[" * depth + b"]" * depth
        try:
            (item,) = enqueue_request(b'{"items": [{"payload": %s}]}' % payload)
        except Refusal as refusal:
            reasons.add(refusal.detail)
            continue
        assert item.payload == payload
        if depth < 990:
            break
    (reason,) = reasons
    assert "nested too deeply" in reason


@pytest.mark.parametrize(
    ("tokens", "detail"),
    [
        (["w/1.aaaaaaaa", ""], "/tokens/1: is not valid; give an object, or in tokens the token of a claim"),
        (["x" * 10_000], "/tokens/0: is not valid"),
        ([7], "/tokens/0: is not valid"),
        ([], "/tokens: is not valid; give a list"),
        (
            ["w/1.aaaaaaaa", "TOKEN"],
            "the body: a token is not that of a claim; give it as the claim returned it",
        ),
        (["w/1.aaaaaaaa\n"], "the body: a token is not that of a claim"),
    ],
    ids=["empty", "too long", "a number", "none", "the word of an example", "a line end"],
)
def test_an_invalid_token_is_refused_with_the_reason(tokens: list[object], detail: str) -> None:
    with pytest.raises(Refusal) as raised:
        verdict_request("done", raw({"tokens": tokens}))
    assert raised.value.detail.startswith(detail)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"a/b~\u202e`": 1}, "/a~1b~0\\u202e`"),
        ({"done": [{"token": "w/1.aaaaaaaa", "enqueue": [{"text": 1}]}]}, "/done/0/enqueue/0/text"),
        ({"done": [{"token": "w/1.aaaaaaaa", "enqueue": [{"delay": 1}]}]}, "/done/0/enqueue/0"),
        ({"done": [{"token": "w/1.aaaaaaaa"}, 3]}, "/done/1"),
        ({"fail": [{"token": "w/1.aaaaaaaa"}]}, "/fail/0/error"),
        ({"done": [{"token": "w/1.aaaaaaaa"}, {"token": "w/1.aaaaaaaa"}]}, ""),
        ({"max": 1.5}, "/max"),
    ],
)
def test_a_problem_has_the_pointer_of_its_field(body: object, pointer: str) -> None:
    with pytest.raises(Refusal) as raised:
        next_request(raw(body))
    (error,) = raised.value.errors
    assert error.pointer == pointer
    assert raised.value.detail == f"{pointer or 'the body'}: {error.detail}"


@pytest.mark.parametrize(
    "headers",
    [[], {"a": 1}, {"A": "1"}, {"claimq-id": "1"}, {"a": "1\n"}, {f"a{number}": "" for number in range(17)}],
)
def test_invalid_headers_are_refused_with_the_fix(headers: object) -> None:
    with pytest.raises(Refusal) as raised:
        enqueue_request(raw({"items": [{"text": "a", "headers": headers}]}))
    assert raised.value.detail == "/items/0/headers: is not valid; give an object of names and strings"


@pytest.mark.parametrize("payload", [rb'[1e999, "\ud800"]', rb'{"\ud800": -1e999}'])
def test_a_payload_that_is_no_json_for_others_is_refused(payload: bytes) -> None:
    with pytest.raises(Refusal, match="no finite double; use payload_base64"):
        enqueue_request(b'{"items": [{"payload": %s}]}' % payload)


FORMS = [
    ClaimBody,
    EnqueueBody,
    SessionBody,
    VerdictsBody,
    NextBody,
    *VERDICT_BODIES.values(),
]
FIELDS = [
    "max",
    "wait",
    "session",
    "encoding",
    "tokens",
    "error",
    "permanent",
    "delay",
    "enqueue",
    "items",
    "done",
    "fail",
    "requeue",
    "unclaim",
]
TOKENS: st.SearchStrategy[Any] = st.sampled_from(["w/1.aaaaaaaa", "w/2.aaaaaaaa", "w/3.Zk3q-u5H", "w", "", 1])
WORDS: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        1.0,
        1.5,
        301,
        -1,
        1e999,
        "",
        "auto",
        "é",
        "YQ==",
        "YQ",
        [],
        {},
        [{}],
        {"a": "1"},
        {"A": ""},
    ]
)
ITEM_FIELDS = st.sampled_from(
    [
        "payload",
        "payload_base64",
        "text",
        "id",
        "client",
        "delay",
        "headers",
        "expires_in",
        "max_requeues",
        "priority",
        "key",
        "unknown",
    ]
)
ITEMS = st.lists(st.dictionaries(ITEM_FIELDS, WORDS, max_size=3), max_size=2)
CLAIMS: st.SearchStrategy[Any] = st.lists(
    st.fixed_dictionaries(
        {"token": TOKENS}, optional={"error": WORDS, "enqueue": ITEMS, "delay": WORDS, "permanent": WORDS}
    ),
    max_size=3,
)
BODIES: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(FIELDS), WORDS | st.lists(TOKENS, min_size=1, max_size=2) | ITEMS | CLAIMS, max_size=3
)


@given(st.sampled_from(FORMS), BODIES)
def test_both_ways_to_read_a_body_decide_the_same(form: type[Body], body: dict[str, Any]) -> None:
    text = raw(body).replace(b"Infinity", b"1e999")
    try:
        explained: Body | None = read_in_python(text, form)
    except Refusal:
        explained = None
    assert explained == decoded(text, form)


def decoded(text: bytes, form: type[Body]) -> Body | None:
    """What msgspec makes of a body; None if it does not fit."""
    try:
        return msgspec.json.decode(text, type=form)
    except msgspec.ValidationError:
        return None
