"""The pages of docs/reference are what scripts/make_reference.py makes of the code."""

import re

import pytest

from claimq.address import variables
from testkit.repository.tree import ROOT, script

script("wrap_markdown")  # the other script imports these
script("command_line")
MAKE_REFERENCE = script("make_reference")


@pytest.mark.parametrize("name", MAKE_REFERENCE.PAGES)
def test_a_reference_page_is_made_from_the_code(name: str) -> None:
    text = (MAKE_REFERENCE.FOLDER / f"{name}.md").read_text()
    assert text == MAKE_REFERENCE.page(name), "run: python scripts/make_reference.py"


def test_the_folder_of_the_reference_has_generated_pages_only() -> None:
    assert {path.stem for path in MAKE_REFERENCE.FOLDER.iterdir()} == set(MAKE_REFERENCE.PAGES)


def test_the_settings_page_has_every_variable_of_the_sidecar() -> None:
    section = (ROOT / "docs/reference/settings.md").read_text().partition("\n## The operator")[0]
    assert set(re.findall(r"CLAIMQ_[A-Z_]+", section)) == variables.ALL
