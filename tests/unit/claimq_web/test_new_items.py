"""Items in the body of a request to the page."""

import pytest

from claimq_web.changes.new_items import items_of


@pytest.mark.parametrize(
    "payload",
    [
        b'{"n": 1e400, "m": 1.0, "k": 123456789012345678901234567890}',
        b'{"a": 1, "a": [ 2 ]}',
        b'["\\u00e9", "\\ud800", {"x" : null}]',
    ],
    ids=["numbers", "a repeated name and blanks", "escapes"],
)
def test_a_json_payload_is_stored_as_sent(payload: bytes) -> None:
    first, second = items_of(
        b'{"items": [ {"id": "a", "payload": %s , "delay": 1.5} ,{"payload": "x"}]}' % payload
    )
    assert (first.payload, first.id, first.delay) == (payload, "a", 1.5)
    assert second.payload == b"x"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"items": 1}', "without other fields"),
        (b'{"items": [{"payload": "x"}], "more": 1}', "without other fields"),
        (b"\xff", "without other fields"),
        (b'{"items": []}', "1 to 1,000 items, not 0"),
        (b'{"items": [{"payload": "x"}, 1]}', r"items\[1\]: not an object"),
        (b'{"items": [{"payload": 1}]}', r"items\[0\]: a payload is bytes, text"),
        (b'{"items": [{"payload": "x", "new": 1}]}', r"items\[0\]: there is no field 'new'"),
        (b'{"items": [{"payload": "x", "prio": 1}]}', r"there is no field 'prio'; did you mean priority\?"),
        (b'{"items": [{"payload": "x", "id": "a", "id": "b"}]}', r"items\[0\]: the name 'id' comes twice"),
    ],
)
def test_what_is_wrong_with_a_body_is_named(body: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        items_of(body)
