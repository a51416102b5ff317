"""What a server can do to the page: nothing but fail by itself."""

import asyncio

import pytest
from starlette.exceptions import HTTPException

from claimq.errors import InvalidName, StoreUnavailable
from claimq_cli.web.limits import answering


async def test_a_read_that_does_not_end_is_ended() -> None:
    with pytest.raises(StoreUnavailable, match=r"^the server did not finish .* within 0\.01 s"):
        async with answering("orders", 0.01):
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error", [ValueError("x"), IndexError("x"), TypeError("x"), UnicodeDecodeError("utf-8", b"", 0, 1, "x")]
)
async def test_an_answer_that_cannot_be_read_counts_as_an_outage(error: Exception) -> None:
    with pytest.raises(StoreUnavailable, match=r"^the answers of the server cannot be read"):
        async with answering("orders", 60):
            raise error


@pytest.mark.parametrize("error", [InvalidName("x"), HTTPException(404, "x"), StoreUnavailable("x")])
async def test_other_errors_are_passed_on(error: Exception) -> None:
    with pytest.raises(type(error)) as found:
        async with answering("orders", 60):
            raise error
    assert found.value is error
