"""The division of a sidecar's memory."""

import pytest

from claimq import RedisSettings
from claimq_control.quantity import parse_quantity
from claimq_sidecar.memory import Allowance

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("memory", "largest"), [("72Mi", MIB // 2), ("256Mi", 12 * MIB), ("64Gi", 512 * MIB)]
)
def test_the_largest_item_takes_a_sixteenth_of_the_memory_and_is_a_valid_setting(
    memory: str, largest: int
) -> None:
    found = Allowance(int(parse_quantity(memory))).largest_item
    assert found == largest
    assert RedisSettings(largest_item=found).largest_item == largest


@pytest.mark.parametrize("payload", [1, MIB, 6 * MIB, 100 * MIB])
def test_every_payload_that_the_manifest_allows_can_be_claimed(payload: int) -> None:
    needed = 64 * MIB + 32 * payload
    header = 128 * 1024
    assert Allowance(max(needed, 72 * MIB)).largest_item >= payload + (header if payload > MIB else 0)
