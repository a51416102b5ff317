"""Changes one token of a pure module at a time, and lists the changes that the module's unit tests do not notice.

Cosmic Ray makes the changes. The tests run in copies of the tree; the tree itself stays as it is. scripts/mutants.toml
lists the modules with their tests, and the changes that make no difference.
"""

# Cosmic Ray is only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import argparse
import importlib.util
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "scripts" / "mutants.toml"
LEAST_CAUGHT = 85 / 90
LONGEST_RUN = 300
"""Seconds after which a change counts as caught, because it made a loop endless."""
CAUGHT, PASSED = (1, 2, 3, 4), 0
"""Exit codes of pytest: a test failed, or the module cannot be imported by tests, plugins or fixtures; all passed."""
OPERATORS = (
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in ("Add_Sub", "Div_Mul", "FloorDiv_Mul", "Mul_Div", "Sub_Add")
    ),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt")),
    *(f"ReplaceUnaryOperator_Delete_{name}" for name in ("Not", "USub")),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one changed token, and the tests of the module."""

    module: str
    line: int
    before: str
    after: str
    code: str
    tests: tuple[str, ...]

    @property
    def is_declaration(self) -> bool:
        """Whether it changes an option of a dataclass, or the ``*`` before keyword arguments: nothing that runs."""
        return self.before.startswith("@dataclass") or ("*," in self.before and "/," in self.after)

    def __str__(self) -> str:
        return f"{self.module}:{self.line}\n    - {self.before}\n    + {self.after}"


def sample_of(config: dict[str, Any], size: int, seed: int, only: str) -> tuple[list[Mutant], int]:
    """A random sample of the changes that are not listed as equivalent, and how many changes there are."""
    equivalent = {(one["before"], one["after"]) for one in config.get("equivalent", [])}
    pool = [
        (module, tuple(tests), operator, occurrence)
        for path, tests in config["modules"].items()
        for module in (sorted((ROOT / path).glob("*.py")) if (ROOT / path).is_dir() else [ROOT / path])
        if only in str(module)
        for operator, occurrence in _places(module)
    ]
    found: list[Mutant] = []
    for place in random.Random(seed).sample(pool, len(pool)):  # noqa: S311 - nothing secret
        mutant = _mutant(*place)
        if not mutant.is_declaration and (mutant.before, mutant.after) not in equivalent:
            found.append(mutant)
        if len(found) == size:
            break
    return found, len(pool)


def _places(module: Path) -> list[tuple[Operator, int]]:
    tree = get_ast(module.read_text())
    nodes = list(ast_nodes(tree))
    operators = [get_operator(f"core/{name}")() for name in OPERATORS]
    return [
        (operator, number)
        for operator in operators
        for number, _ in enumerate(at for node in nodes for at in operator.mutation_positions(node))
    ]


def _mutant(module: Path, tests: tuple[str, ...], operator: Operator, occurrence: int) -> Mutant:
    source = module.read_text()
    code = mutate_code(source, operator, occurrence)
    if code is None:
        raise ValueError(f"{module}: {operator} has no place {occurrence}")
    return Mutant(str(module.relative_to(ROOT)), *_changed_line(source, code), code, tests)


def _changed_line(source: str, code: str) -> tuple[int, str, str]:
    pairs = enumerate(zip(source.splitlines(), code.splitlines(), strict=True), 1)
    return next((line, old.strip(), new.strip()) for line, (old, new) in pairs if old != new)


class Copy:
    """A copy of the tree without ignored files, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
        )
        for name in listed.stdout.decode().split("\0"):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        sources = os.pathsep.join(str(path) for path in folder.glob("*/src"))
        # Without plugins that the unit tests do not use, a run takes a third of the time.
        self._environment = {**os.environ, "PYTHONPATH": sources, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def check(self, modules: set[str], tests: set[str]) -> None:
        """Runs all tests without a change. They must pass. Their byte code makes the later runs faster."""
        result = self._run(tuple(sorted(tests)), stdout=None)
        if result != PASSED:
            raise SystemExit(f"mutants: the tests fail without a change (pytest: exit code {result})")
        for module in modules:
            Path(importlib.util.cache_from_source(str(self.folder / module))).unlink(missing_ok=True)
        self._environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def catches(self, mutant: Mutant) -> bool:
        """Whether a test of the module fails with this change."""
        path = self.folder / mutant.module
        original = path.read_text()
        path.write_text(mutant.code)
        try:
            result = self._run(mutant.tests, stdout=subprocess.DEVNULL, timeout=LONGEST_RUN)
        except subprocess.TimeoutExpired:
            return True
        finally:
            path.write_text(original)
        if result not in (*CAUGHT, PASSED):
            raise SystemExit(f"mutants: pytest could not run: exit code {result}, at\n{mutant}")
        return result in CAUGHT

    def _run(self, tests: tuple[str, ...], stdout: int | None, timeout: float | None = None) -> int:
        plugins = ("no:cacheprovider", "pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
        options = ["-x", "-q", "--hypothesis-seed=0", *(f"-p{plugin}" for plugin in plugins)]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment, stdout=stdout, timeout=timeout, check=False
        ).returncode


def caught_of(sample: list[Mutant], jobs: int) -> int:
    """Runs the tests with each change, prints the changes that no test notices, and counts the others."""
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="claimq-mutants-") as folder:
        for number in range(jobs):
            copy = Copy(Path(folder) / str(number))
            copy.check({one.module for one in sample}, {test for one in sample for test in one.tests})
            copies.put(copy)

        def is_noticed(mutant: Mutant) -> bool:
            copy = copies.get()
            try:
                is_caught = copy.catches(mutant)
            finally:
                copies.put(copy)
            print("." if is_caught else f"\nnot caught: {mutant}\n", end="", flush=True)
            return is_caught

        with ThreadPoolExecutor(jobs) as pool:
            return sum(pool.map(is_noticed, sample))


def main() -> int:
    """Tests a random sample; exit code 1 when fewer than 85 of 90 changes are caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=90, help="how many changes; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")
    parser.add_argument("--jobs", type=int, default=2, help="how many runs at the same time")
    parser.add_argument("--only", default="", help="only modules whose path contains this")
    options = parser.parse_args()
    config = tomllib.loads(CONFIG.read_text())
    sample, possible = sample_of(config, options.sample, options.seed, options.only)
    size = len(sample)
    caught = caught_of(sample, min(options.jobs, size))
    print(f"\ncaught {caught} of {size} (seed {options.seed}, {possible:,} possible changes)")
    return 0 if caught >= LEAST_CAUGHT * size else 1


if __name__ == "__main__":
    sys.exit(main())
