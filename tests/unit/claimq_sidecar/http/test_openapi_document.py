"""The OpenAPI document and docs/api.md are what scripts/make_openapi.py makes of the types."""

from testkit.repository.tree import script


def test_the_document_is_made_from_the_types() -> None:
    make_openapi = script("make_openapi")
    assert make_openapi.FILE.read_text() == make_openapi.openapi_text(), "run: python scripts/make_openapi.py"


def test_the_page_is_made_from_the_document() -> None:
    make_openapi = script("make_openapi")
    assert make_openapi.PAGE.read_text() == make_openapi.page_text(), "run: python scripts/make_openapi.py"
