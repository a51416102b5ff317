"""The OpenAPI document is what scripts/make_openapi.py makes of the types."""

import importlib.util
import sys

from testkit.tree import ROOT


def test_the_document_is_made_from_the_types() -> None:
    found = importlib.util.spec_from_file_location("make_openapi", ROOT / "scripts" / "make_openapi.py")
    assert found is not None
    assert found.loader is not None
    make_openapi = importlib.util.module_from_spec(found)
    sys.modules["make_openapi"] = make_openapi  # dataclasses look their module up
    found.loader.exec_module(make_openapi)
    assert make_openapi.FILE.read_text() == make_openapi.openapi_text(), "run: python scripts/make_openapi.py"
