"""Tokens of one call as the scripts read them: grouped by worker, no token twice."""

from typing import cast

import pytest

from claimq.model import Claim, Item
from claimq.queue.claiming import new_nonce
from claimq.queue.token_groups import TokenGroups
from claimq.tokens import calls_of, common_worker, make_token, number_of, worker_of

NO_TOKENS = [
    "", "nonsense", "/", "w/", "w/x", "w/1", "w/1.", "w/1.AAAAAAA", "w/1.AAAAAAAAA", "w/1.AAAA AAA", "w/.AAAAAAAA",
    "w/x.AAAAAAAA", "w/\u00b2.AAAAAAAA", "/1.AAAAAAAA", "w/1/1.AAAAAAAA", "w 1/1.AAAAAAAA", "w/1.AAAAAAAA\n",
    "w/12345678901234567.AAAAAAAA", "w/1.AAAAAAAA\nw/2.AAAAAAAA", "\nw/1.AAAAAAAA",
]  # fmt: skip


def claim(token: str) -> Claim:
    return Claim(token, Item(f"id-{token}", b"", 0.0, 0.0), token.rpartition("/")[0], 0.0, 0.0)


def test_tokens_are_grouped_by_worker_in_the_order_of_the_first_of_each() -> None:
    groups = TokenGroups.of(["b/1.AAAAAAAA", "a/2.AAAAAAAA", "b/3.AAAAAAAA"])
    assert groups.words == [2, "b", 2, "b/1.AAAAAAAA", "b/3.AAAAAAAA", "a", 1, "a/2.AAAAAAAA"]
    assert groups.sent == ["b/1.AAAAAAAA", "b/3.AAAAAAAA", "a/2.AAAAAAAA"]
    assert groups.tokens == ["b/1.AAAAAAAA", "a/2.AAAAAAAA", "b/3.AAAAAAAA"]


def test_a_token_that_comes_twice_is_sent_once() -> None:
    groups = TokenGroups.of(["w/1.AAAAAAAA", "w/2.AAAAAAAA", "w/1.AAAAAAAA"])
    assert groups.sent == ["w/1.AAAAAAAA", "w/2.AAAAAAAA"]
    assert groups.tokens == ["w/1.AAAAAAAA", "w/2.AAAAAAAA", "w/1.AAAAAAAA"]


@pytest.mark.parametrize("text", sorted(NO_TOKENS))
def test_text_that_is_not_a_token_is_an_argument_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not the token of a claim; a token looks like worker-1/"):
        TokenGroups.of(["w/1.AAAAAAAA", text])


def test_a_claim_that_is_neither_a_claim_nor_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="give a Claim or its token, not int"):
        TokenGroups.of(cast("list[str]", [5]))


def test_a_mistake_in_the_last_of_many_tokens_is_found_before_the_first_call() -> None:
    with pytest.raises(ValueError, match="'TOKEN' is not the token of a claim"):
        TokenGroups.batches([*(f"w/{number}.AAAAAAAA" for number in range(1500)), "TOKEN"])


def test_claims_bring_the_ids_of_their_items() -> None:
    groups = TokenGroups.of([claim("w/1.AAAAAAAA"), "w/2.AAAAAAAA"])
    assert groups.ids == {"w/1.AAAAAAAA": "id-w/1.AAAAAAAA"}
    assert TokenGroups.of(claim("w/1.AAAAAAAA")).sent == ["w/1.AAAAAAAA"]
    assert TokenGroups.of("w/1.AAAAAAAA").sent == ["w/1.AAAAAAAA"]


def test_more_than_a_thousand_go_in_several_calls() -> None:
    sizes = [
        len(groups.sent) for groups in TokenGroups.batches(f"w/{number}.AAAAAAAA" for number in range(2500))
    ]
    assert sizes == [1000, 1000, 500]
    assert list(TokenGroups.batches([])) == []


def test_a_token_is_read_as_it_was_made() -> None:
    nonce = new_nonce("instance-id_")
    token = make_token("a.b-1", 1795232291850000, nonce)
    assert (worker_of(token), number_of(token)) == ("a.b-1", 1795232291850000)
    assert len({new_nonce("instance-id_") for _ in range(1000)}) == 1000


def test_the_tokens_of_one_worker_are_recognized_at_once() -> None:
    tokens = [make_token("w-1", number, "AAAA_-09") for number in (1, 17, 1795232291850000)]
    assert common_worker(tokens) == "w-1"
    assert common_worker(tokens[:1]) == "w-1"
    assert common_worker([]) is None


@pytest.mark.parametrize("other", ["w-2", "w", "w-11"])
def test_tokens_of_several_workers_have_no_common_one(other: str) -> None:
    tokens = [make_token(worker, 1, "AAAA_-09") for worker in ("w-1", other)]
    assert common_worker(tokens) is None
    assert common_worker(tokens[::-1]) is None


def test_the_tokens_of_each_call_are_counted() -> None:
    tokens = [make_token("a", 7, "AAAA_-09"), make_token("a", 9, "BBBBBBBB"), make_token("a", 8, "AAAA_-09")]
    assert calls_of(tokens) == [(7, 2), (9, 1)]
    assert calls_of([]) == []


@pytest.mark.parametrize("text", [*NO_TOKENS, "w/1"])
def test_one_text_that_is_no_token_is_found_among_many(text: str) -> None:
    assert common_worker(["w/1.AAAAAAAA", text, "w/2.AAAAAAAA"]) is None
    assert common_worker([text]) is None


def test_what_is_no_token_has_no_worker_and_no_number() -> None:
    assert [worker_of(text) for text in NO_TOKENS] == [None] * len(NO_TOKENS)
    assert [number_of(text) for text in NO_TOKENS] == [0] * len(NO_TOKENS)
