"""Variables are nouns that say what they hold, not participles or pronouns."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.repository.tree import COMPONENTS, parsed, shown, sources

VAGUE = frozenset({
    "asked", "data", "found", "given", "held", "kept", "known", "left", "listed", "made", "obj", "one", "others", "own",
    "result", "seen", "shown", "taken", "value", "wanted",
})  # fmt: skip
"""Names that do not say what they hold, as ``match``, ``item``, ``desired_replicas`` and ``options`` do."""

MOST = 5.0
"""Of them in 1,000 lines of a package. A ``value`` beside its ``key`` is one too, and some of these may stay."""


@pytest.mark.parametrize("component", COMPONENTS)
def test_few_variables_are_participles_or_pronouns(component: str) -> None:
    paths = sources(component)
    lines = sum(len(path.read_text().splitlines()) for path in paths)
    places = [place for path in paths for place in vague_names(path)]
    rate = 1000 * len(places) / lines
    assert rate <= MOST, f"{rate:.1f} in 1,000 lines, allowed are {MOST}:\n" + "\n".join(places)


def vague_names(path: Path) -> Iterator[str]:
    """Each place that binds such a name: ``PATH:LINE NAME``."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE:
                yield f"{shown(path)}:{node.lineno} {name}"
            case _:
                pass
