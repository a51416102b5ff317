"""The reference of the status has every reason that the code sets."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from claimq_control.scaling import ScalingRule
from testkit.repository.tree import ROOT

REFERENCE = ROOT / "docs" / "reference" / "status.md"
CODE = [ROOT / "operator" / "src", ROOT / "control" / "src" / "claimq_control" / "decide"]
SETTERS = {"Fault", "Condition", "WorkerProblem", "Change", "emit"}
"""Calls that take a reason."""
CAMEL = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)*")
NOT_REASONS = {"True", "False", "Ready", "Progressing"}
"""Statuses, and types of conditions."""


def words(node: ast.AST) -> Iterator[str]:
    """CamelCase words in an expression."""
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and CAMEL.fullmatch(one.value):
            yield one.value


def reasons(file: Path) -> Iterator[str]:
    """The reasons that a module can set: arguments of SETTERS, and assignments to names of reasons."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SETTERS:
                for argument in node.args:
                    yield from words(argument)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in ("reason", "STARTING"):
                    yield from words(node.value)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            last = node.values[-1]  # a fallback: `letters or "NotReady"`
            yield from words(last) if isinstance(last, ast.Constant) else ()


def all_reasons() -> set[str]:
    found = {word for folder in CODE for file in folder.rglob("*.py") for word in reasons(file)} - NOT_REASONS
    by_others = {ScalingRule.MANUAL, ScalingRule.EXTERNAL, ScalingRule.SUSPENDED, ScalingRule.UNKNOWN}
    return found | {rule.value for rule in by_others}


def test_every_reason_that_the_operator_can_set_is_in_the_page() -> None:
    text = REFERENCE.read_text()
    assert {word for word in all_reasons() if f"`{word}`" not in text} == set()


def test_the_reasons_are_found_in_the_code() -> None:
    found = all_reasons()
    sample = {
        "SpecInvalid",
        "Forbidden",
        "Starting",
        "NotReady",
        "ScaledDown",
        "RedisUnreachable",
        "ItemsLeftBehind",
    }
    assert sample <= found
    assert len(found) > 40
