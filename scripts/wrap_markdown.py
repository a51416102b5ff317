"""Wraps the prose of Markdown pages at 110 columns: `python scripts/wrap_markdown.py [--check] [PAGE...]`.

Tables, code, headings and front matter stay as they are. A span of code and a link's address are never divided.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 110
WORD = re.compile(r"(?:`[^`\n]*`|\]\([^)\n]*\)|\S)+")
"""Text without a space outside of code and addresses."""
POINT = re.compile(r"( *(?:[-*+]|\d+\.) +|>+ ?)(.*)")
"""The beginning of a point of a list or of a quotation, and its text."""
VERBATIM = re.compile(r"\s*(?:$|\||#|<|!\[|\[[^\]]+\]: |-{3,}$)")
"""An empty line, or one that is no prose."""
FENCE = re.compile(r"\s*(```|~~~)")
NEW_BLOCK = re.compile(r"(?:[-*+>]|\d+[.)]|#+|=+|-{3,}|\|\S*|<\S+|```\S*)$")
"""A word that would begin another block at the start of a line."""


def wrap(text: str) -> str:
    """The page with each paragraph and each point of a list wrapped."""
    return "\n".join(_wrapped(text.split("\n")))


def _wrapped(lines: list[str]) -> Iterator[str]:
    indent = start = ""
    words: list[str] = []
    for line, is_verbatim in _marked(lines):
        point = None if is_verbatim else POINT.match(line)
        is_code = line.startswith("    ") and not words and not point
        if (is_verbatim or point or is_code) and words:
            yield from _filled(start, indent, words)
            words = []
        if is_verbatim or is_code:
            yield line
        elif point:
            start, words = point[1], WORD.findall(point[2])
            indent = start if start.startswith(">") else " " * len(start)
        else:
            if not words:
                start = indent = " " * (len(line) - len(line.lstrip()))
            words += WORD.findall(line)
    yield from _filled(start, indent, words) if words else ()


def _marked(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it stays as it is."""
    fence = "---" if lines[0] == "---" else ""
    for number, line in enumerate(lines):
        mark = FENCE.match(line)
        yield line, bool(fence or mark or VERBATIM.match(line))
        if fence == "---":
            fence = "" if number and line == "---" else fence
        elif mark:
            fence = "" if fence == mark[1] else fence or mark[1]


def _filled(start: str, indent: str, words: list[str]) -> Iterator[str]:
    """The lines of one paragraph."""
    line = start + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > WIDTH and not NEW_BLOCK.match(word):
            yield line
            line = indent + word
        else:
            line += " " + word
    yield line


def pages() -> list[Path]:
    """All Markdown pages of the repository."""
    shell = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in shell.stdout.splitlines() if (ROOT / name).exists()]


def main(arguments: list[str]) -> int:
    """Wraps the named pages, or all. With --check, reports those that are not wrapped and returns 1."""
    names = [name for name in arguments if name != "--check"]
    unwrapped = 0
    for page in map(Path, names) if names else pages():
        text = page.read_text()
        if (lines := wrap(text)) == text:
            continue
        unwrapped += 1
        print(page)
        if "--check" not in arguments:
            page.write_text(lines)
    return int(bool(unwrapped) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
