"""JSON of an outsider that is nested too deeply to be read or written."""

import pytest

from claimq.codec import payload_bytes
from claimq_admin.item_files import item_files
from claimq_cli.migration.layout import Kept, json_object

DEEP = b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def test_a_line_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        item_files.item_of_json(DEEP)


def test_a_job_that_is_nested_too_deeply_is_kept_where_it_is() -> None:
    with pytest.raises(Kept, match="the job is not a JSON object"):
        json_object(DEEP, "the job")


def test_a_payload_that_is_nested_too_deeply_is_a_value_error() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="cannot be stored"):
        payload_bytes(deep)
