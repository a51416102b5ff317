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
GENERATED = re.compile(r"docs/(?:api|manifest|reference/.*)\.md")
"""Reference pages that a script writes as they are."""
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
    lines: list[str] = []
    for block in _blocks(text.split("\n")):
        lines += [block] if isinstance(block, str) else _filled(*block)
    return "\n".join(lines)


def paragraphs(text: str) -> list[str]:
    """The page's paragraphs and points of lists, each as one line."""
    return [" ".join(block[2]) for block in _blocks(text.split("\n")) if not isinstance(block, str)]


def _blocks(lines: list[str]) -> Iterator[str | tuple[str, str, list[str]]]:
    """Lines that stay as they are, and paragraphs: the start of the first line and of the others, and the words."""
    indent = start = in_point = ""
    words: list[str] = []
    for line, is_verbatim in _marked(lines):
        if line and not line.startswith(in_point):
            in_point = ""
        point = None if is_verbatim else POINT.match(line)
        is_code = line.startswith(in_point + "    ") and not words and not point
        if (is_verbatim or point or is_code) and words:
            yield start, indent, words
            words = []
        if is_verbatim or is_code:
            yield line
        elif point:
            start, words = point[1], WORD.findall(point[2])
            indent = start if start.startswith(">") else " " * len(start)
            in_point = indent
        else:
            if not words:
                start = indent = " " * (len(line) - len(line.lstrip()))
            words += WORD.findall(line)
    if words:
        yield start, indent, words


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
    first, *others = _kept_together(words)
    line = start + first
    for word in others:
        if len(line) + 1 + len(word) > WIDTH:
            yield line
            line = indent + word
        else:
            line += " " + word
    yield line


def _kept_together(words: list[str]) -> list[str]:
    """The words; one that would begin a block stays behind the word before it."""
    kept: list[str] = []
    for word in words:
        if kept and NEW_BLOCK.match(word):
            kept[-1] += " " + word
        else:
            kept.append(word)
    return kept


def pages() -> list[Path]:
    """All Markdown pages of the repository that people write."""
    shell = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in shell.stdout.splitlines() if not GENERATED.fullmatch(name)]
    return [ROOT / name for name in names if (ROOT / name).exists()]


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
