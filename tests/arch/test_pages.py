"""Pages: links lead to files and headings that exist, and no merge conflict is left in a file."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from testkit import tiers
from testkit.repository.tree import ROOT, shown, tracked_files

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|^ {4,}.*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
TEXTS = {".py", ".lua", ".md", ".yaml", ".yml", ".tpl", ".txt", ".json", ".toml", ".sh", ".mk"}


def test_each_link_of_a_page_leads_somewhere() -> None:
    pages = [path for path in tracked_files() if path.suffix == ".md"]
    assert [link for page in pages for link in dead_links(page)] == []


def test_no_file_has_an_unresolved_merge_conflict() -> None:
    texts = [path for path in tracked_files() if path.suffix in TEXTS and path.exists()]
    assert [shown(path) for path in texts if CONFLICT.search(path.read_text())] == []


def test_the_sample_of_make_test_has_the_lines_of_its_summary() -> None:
    """No test runs `make test`, which runs all of them: the sample is compared with what writes these lines."""
    sample = re.search(r"(?ms)^=+ tiers =+\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text())
    assert sample
    *lines, _, last = sample[1].splitlines()
    found: list[str] = []
    total: Counter[str] = Counter()
    for line in lines:
        tier, counts, seconds = re.findall(r"(\w+) +(.*), ([\d.]+) s of work", line)[0]
        outcomes = {outcome: int(count) for count, outcome in re.findall(r"(\d+) (\w+)", counts)}
        assert line == tiers.tier_line(tier, outcomes, float(seconds))
        found.append(tier)
        total.update(outcomes)
    (known,) = re.findall(r"(?m)^TIERS := (.*)$", (ROOT / "Makefile").read_text())
    assert found == sorted(known.split())
    summary = ", ".join(f"{count} {outcome}" for outcome, count in total.items())
    assert re.fullmatch(rf"=+ {summary} in [\d.]+s \(\d:\d\d:\d\d\) =+", last)


def dead_links(page: Path) -> Iterator[str]:
    """The relative links of a page whose file or heading is missing, as PAGE: LINK."""
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            yield f"{shown(page)}: {target}"


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCED.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    texts = [LINK.sub("", heading).replace("[", "").lower() for heading in headings]
    return frozenset(re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-") for text in texts)
