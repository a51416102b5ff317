"""Claims and outcomes to JSON, without a server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimq.model import Claim, Item
from claimq_sidecar.http.json_text import is_json
from claimq_sidecar.http.responses import claims_body

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.binary() | JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(["auto", "base64", "text"]),
)
def test_any_claim_becomes_json(payload: bytes, encoding: str) -> None:
    item = Item('i"d', payload, 1.5, 1.25, client="a\\b", requeue_count=2)
    body = claims_body([Claim('w"/1', item, "w", 2.0, 3.0)] * 2, encoding, draining=False)
    assert body.endswith(b"}\n")
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
    if "text" in first:
        assert first["text"] == payload.decode()


@pytest.mark.parametrize("payload", [rb'"\ud800"', b"1e999", b"1" * 4000, b' {"a": 1}\n'])
def test_json_that_only_python_parses_is_json(payload: bytes) -> None:
    assert is_json(payload)


def test_every_beginning_of_json_is_known() -> None:
    """A payload whose first byte begins no JSON is not parsed."""
    rests = [b"", b"rue", b"alse", b"ull", b'"', b"]", b"}", b"1", b" 1", b"0]", b'"a":1}', b"\n[]"]
    for payload in (bytes([first]) + rest for first in range(256) for rest in rests):
        try:
            json.loads(payload.decode(), parse_constant=_refuse)
            expected = True
        except ValueError:
            expected = False
        assert is_json(payload) is expected, payload


def _refuse(name: str) -> None:
    raise ValueError(name)


@pytest.mark.parametrize(
    "payload", [b"", b"NaN", b"[1", b"\xff", b"Infinity", b'"\xed\xa0\x80"', b"{'a': 1}", b"[" * 200_000]
)
def test_what_is_not_json_is_not_taken_for_it(payload: bytes) -> None:
    assert not is_json(payload)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (b"\x01" * 1000, "text"),
        (b"\x01" * 1_000_000, "payload_base64"),
        ("é€\U0001f600".encode() * 100_000, "text"),
    ],
    ids=["few control characters", "many control characters", "wide characters"],
)
def test_a_text_of_control_characters_grows_too_much(payload: bytes, field: str) -> None:
    claim = Claim("w/1", Item("i", payload, 1.0, 1.0), "w", 2.0, 3.0)
    body = claims_body([claim], "text", draining=False)
    assert field in json.loads(body)["claims"][0]
    assert len(body) < 4 * len(payload) + 65_536
