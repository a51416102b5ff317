"""Bodies to requests and claims to JSON, without a server (what is refused is tested through the socket)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.model import Claim, Item
from claimq_sidecar.http.problems import Refusal
from claimq_sidecar.http.requests import (
    claim_request,
    enqueue_request,
    read_json,
    session_request,
    verdict_request,
)
from claimq_sidecar.http.responses import claims_body, is_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_an_empty_body_asks_for_one_item_and_waits_as_the_policy_says() -> None:
    request, encoding = claim_request(read_json(b""))
    assert (request.most, request.wait, request.session, encoding) == (1, None, None, "auto")


def test_tokens_are_taken_once_in_their_order() -> None:
    request = verdict_request("done", {"tokens": ["w/2", "w/1", "w/2"]})
    assert request.tokens == ("w/2", "w/1")
    assert session_request({"tokens": ["x", "x"]}).tokens == ("x",)


def test_failures_with_the_same_reason_share_a_round_trip() -> None:
    claims = [{"token": f"w/{number}", "error": error} for number, error in ((1, "x"), (2, "y"), (3, "x"))]
    request = verdict_request("fail", {"claims": claims})
    assert request.tokens == ("w/1", "w/2", "w/3")
    assert [ending.tokens for ending in request.endings] == [("w/1", "w/3"), ("w/2",)]


def test_a_body_has_at_most_twenty_problems_told() -> None:
    with pytest.raises(Refusal) as caught:
        enqueue_request(read_json(b'{"items": [%s]}' % b",".join([b"{}"] * 1000)))
    assert len(caught.value.errors) == 20


@given(JSON)
def test_a_json_payload_is_stored_as_what_it_means(value: object) -> None:
    (item,) = enqueue_request({"items": [{"payload": value}]})
    assert isinstance(item.payload, bytes)
    assert json.loads(item.payload) == value


@given(
    st.binary() | JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(["auto", "base64", "text"]),
)
def test_any_claim_becomes_json(payload: bytes, encoding: str) -> None:
    item = Item('i"d', payload, 1.5, 1.25, client="a\\b", requeue_count=2)
    body = claims_body([Claim('w"/1', item, "w", 2.0, 3.0)] * 2, encoding, draining=False)
    reply = json.loads(body)
    first, second = reply["claims"]
    assert first == second
    assert (first["token"], first["id"], first["client"], first["requeue_count"]) == (
        'w"/1',
        'i"d',
        "a\\b",
        2,
    )
    assert len({"payload", "payload_base64", "text"} & set(first)) == 1
    if "payload" in first:
        assert first["payload"] == json.loads(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"NaN", b"[1", b"\xff", b"Infinity", b'"\xed\xa0\x80"', b"{'a': 1}"]
)
def test_what_is_not_json_is_not_taken_for_it(payload: bytes) -> None:
    assert not is_json(payload)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "entry 1 is empty"),
        ("x" * 10_000, "entry 1 is longer than"),
        (7, "entry 1 is 7"),
        ("TOKEN", "entry 1 is no token of a claim; give one as the claim answered it"),
        ("w/1\n", "entry 1 is no token of a claim"),
    ],
    ids=["empty", "too long", "a number", "the word of an example", "a line end"],
)
def test_a_token_that_is_none_is_refused_by_what_is_wrong_with_it(token: object, words: str) -> None:
    with pytest.raises(Refusal) as raised:
        verdict_request("done", {"tokens": ["w/1", token]})
    assert words in raised.value.detail
