"""Tokens of one call as the scripts read them: grouped by worker, no token twice, none that is no token."""

from claimq.model import Claim, Item
from claimq.queue_part import TokenGroups


def claim(token: str) -> Claim:
    return Claim(token, Item(f"id-{token}", b"", 0.0, 0.0), token.rpartition("/")[0], 0.0, 0.0)


def test_tokens_are_grouped_by_worker_in_the_order_of_the_first_of_each() -> None:
    groups = TokenGroups.of(["b/1", "a/2", "b/3"])
    assert groups.words == [2, "b", 2, "b/1", "b/3", "a", 1, "a/2"]
    assert groups.sent == ["b/1", "b/3", "a/2"]
    assert groups.tokens == ["b/1", "a/2", "b/3"]


def test_what_is_no_token_and_what_comes_twice_is_not_sent() -> None:
    groups = TokenGroups.of(["w/1", "nonsense", "", "w/", "w/x", "/", "w/1", "w/²", "w/1"])
    assert groups.sent == ["w/1"]
    assert len(groups.tokens) == 9


def test_claims_bring_the_ids_of_their_items() -> None:
    groups = TokenGroups.of([claim("w/1"), "w/2"])
    assert groups.ids == {"w/1": "id-w/1"}
    assert TokenGroups.of(claim("w/1")).sent == ["w/1"]
    assert TokenGroups.of("w/1").sent == ["w/1"]


def test_more_than_a_thousand_go_in_several_calls() -> None:
    sizes = [len(groups.sent) for groups in TokenGroups.batches(f"w/{number}" for number in range(2500))]
    assert sizes == [1000, 1000, 500]
    assert list(TokenGroups.batches([])) == []
