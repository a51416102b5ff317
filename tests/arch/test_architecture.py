"""docs/architecture.md names files that exist."""

import re

from testkit.repository.tree import ROOT, tracked_files


def test_each_file_of_the_architecture_page_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    names = {path.name for path in tracked_files()}
    assert [name for name in re.findall(r"`([a-z_]+\.(?:py|lua))`", text) if name not in names] == []
