"""Chromium for the tests of the web page: the machine's, or Debian's package unpacked into the cache."""

import functools
import os
import shutil
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright

from testkit.servers import debian
from testkit.servers.binaries import ServerMissing
from testkit.waiting import PATIENCE

PATIENCE_MS = PATIENCE * 1000
_MISFITS = """() => {
  if (document.documentElement.scrollWidth > innerWidth) return ["the page is wider than the window"];
  if (!matchMedia("(max-width: 40rem)").matches) return [];
  const boxes = [...document.querySelectorAll(".scroll:has(table), .lines")];
  const wide = boxes.filter(box => box.scrollWidth > box.clientWidth);
  const cells = [...document.querySelectorAll(".stack td.number, .stack td[data-label]")];
  const nameless = cells.filter(cell => {
    const heading = cell.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent;
    return getComputedStyle(cell, "::before").content !== `"${heading} "`;
  });
  return [
    ...wide.map(box => `${box.ariaLabel} scrolls sideways`),
    ...nameless.map(cell => `no heading: ${cell.outerHTML}`),
  ];
}"""
"""On a phone each row of most tables is a block, and the headings of columns are not shown: cells name them."""


@dataclass(frozen=True)
class Chromium:
    """The program, and what to add to its environment."""

    path: Path
    env: dict[str, str] = field(default_factory=dict[str, str])


@functools.cache
def chromium() -> Chromium:
    """The program. ServerMissing when it cannot be had."""
    on_path = shutil.which("chromium")
    if on_path:
        return Chromium(Path(on_path))
    try:
        root = debian.unpacked("chromium", ["chromium", "fonts-dejavu-core"])
    except debian.PackageMissing as error:
        raise ServerMissing(f"chromium: {error}; install chromium") from error
    libraries = sorted({str(path.parent) for path in root.rglob("*.so*")})
    env = {
        "LD_LIBRARY_PATH": ":".join(libraries),
        "FONTCONFIG_PATH": str(root / "etc/fonts"),
        "XDG_DATA_HOME": str(root / "usr/share"),
    }
    return Chromium(root / "usr/lib/chromium/chromium", env)


def launched(playwright: Playwright) -> Browser:
    """A running browser without a window. Its sandbox needs another user than root."""
    found = chromium()
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(
        executable_path=found.path,
        args=[*flags, "--disable-dev-shm-usage", "--disable-gpu"],
        env={**os.environ, **found.env},
        timeout=PATIENCE_MS,
    )


def unfit(tab: Page) -> list[str]:
    """What is wrong with a page at the width of its window: its accessibility, and what a phone does not show."""
    return [*_inaccessible(tab), *tab.evaluate(_MISFITS)]


def _inaccessible(tab: Page) -> list[str]:
    """What axe-core finds wrong with the accessibility of a page: the rules, each with the first element."""
    tab.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = tab.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]
