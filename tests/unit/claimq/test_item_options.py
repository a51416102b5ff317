"""The options of an item: one declaration, and the forms of an item that have them."""

import dataclasses
from typing import cast

import msgspec
import pytest

from claimq.item_options import ITEM_OPTIONS, OF_ENQUEUE, ItemOptions, KeptOptions, new_item
from claimq.model import Item
from claimq.worker.item import ClaimedItem
from claimq_sidecar.http.bodies import ItemBody
from claimq_sidecar.http.responses import Claim as ClaimBody


def test_an_unknown_option_is_refused_with_the_name_that_it_may_mean() -> None:
    misspelt = cast("ItemOptions", {"prioritty": "high"})
    with pytest.raises(TypeError, match="an item has no option prioritty; did you mean priority"):
        new_item(b"", misspelt)
    with pytest.raises(
        TypeError, match="an item has no option colour; the options are id, client, delay, at, headers"
    ):
        new_item(b"", cast("ItemOptions", {"colour": 1}))


def test_each_option_is_a_field_of_all_forms_of_an_item() -> None:
    names = {option.name for option in ITEM_OPTIONS}
    assert set(OF_ENQUEUE) == set(ItemOptions.__annotations__) > set(KeptOptions.__annotations__) == names
    assert {option.field for option in ITEM_OPTIONS} <= set(Item._fields)
    assert {option.field for option in ITEM_OPTIONS} <= {
        field.name for field in dataclasses.fields(ClaimedItem)
    }
    assert names <= {field.name for field in msgspec.structs.fields(ClaimBody)}
    sent = {option.socket_name for option in ITEM_OPTIONS}
    assert sent <= {field.name for field in msgspec.structs.fields(ItemBody)}
