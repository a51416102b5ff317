"""Where files are, what they are called, how long they may get."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.repository.tree import (
    COMPONENTS,
    ROOT,
    functions,
    parsed,
    python_files,
    shown,
    sources,
    tracked_files,
)

LONGEST_FILE = 400
LONGEST_FUNCTION = 40
LONGEST_TEST_NAME = 79
MOST_MODULES, MOST_METHODS = 14, 20
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc", "shared", "lib"}
MOST_FILES_WITH_AN_OPTION = 14
"""Files of the product that name ``priority``, in three of them as a field of Kubernetes, or that name ``deadline``."""
NO_CODE = {
    ".py": r'"{3}[\s\S]*?"{3}|#[^\n]*',
    ".lua": r"--[^\n]*",
    ".go": r"//[^\n]*",
    ".js": r"//[^\n]*|/\*[\s\S]*?\*/",
    ".ts": r"//[^\n]*|/\*[\s\S]*?\*/",
    ".html": r"\{#[\s\S]*?#\}",
    ".json": r"(?!)",
}
"""Comments and docstrings by the ending of the file."""
PACKAGES_OF_TESTS = ("tests/support/", "tests/cluster/harness/src/clusterkit/")


def test_no_file_of_ours_takes_the_name_of_a_standard_module() -> None:
    stolen = [
        shown(path)
        for path in python_files()
        for name in (path.stem, *_packages_above(path))
        if name in sys.stdlib_module_names and not name.startswith("__")
    ]
    assert stolen == []


def test_a_component_folder_is_no_package() -> None:
    assert [name for name in (*COMPONENTS, "operator") if (ROOT / name / "__init__.py").exists()] == []


def test_tests_are_no_packages() -> None:
    inits = [shown(path) for path in python_files() if path.name == "__init__.py"]
    assert [
        name for name in inits if name.startswith("tests/") and not name.startswith(PACKAGES_OF_TESTS)
    ] == []


def test_a_module_is_named_by_what_it_does() -> None:
    assert [shown(path) for path in sources() if {path.stem, path.parent.name} & SAYS_NOTHING] == []


def test_each_package_is_marked_as_typed() -> None:
    for component, package in COMPONENTS.items():
        assert (ROOT / component / "src" / package / "py.typed").exists()


def test_a_file_is_read_in_one_sitting() -> None:
    code = [path for path in tracked_files() if path.suffix in {".py", ".lua"} and "go" not in path.parts]
    lengths = {shown(path): len(path.read_text().splitlines()) for path in code}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_a_function_fits_on_a_screen() -> None:
    lengths = {
        f"{shown(path)}:{one.lineno} {one.name}": _lines(one) for path in sources() for one in functions(path)
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def test_the_input_of_the_scaling_rule_is_built_in_one_module() -> None:
    builders = {
        shown(path)
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Observation"
    }
    assert builders == {"control/src/claimq_control/scaling/observation.py"}


def test_the_name_of_a_test_fits_in_a_line() -> None:
    names = [
        (shown(path), name)
        for path in python_files()
        if path.name.startswith("test_")
        for name in re.findall(r"(?m)^ *(?:async )?def (test_\w+)", path.read_text())
    ]
    assert len(names) > 1000
    assert [(path, name) for path, name in names if len(name) > LONGEST_TEST_NAME] == []


@pytest.mark.parametrize("option", ["priority", "deadline"])
def test_an_option_of_an_item_is_named_in_few_files(option: str) -> None:
    product = [path for path in tracked_files() if path.suffix in NO_CODE and "tests" not in path.parts]
    named = [
        shown(path)
        for path in product
        if re.search(rf"\b{option}\b", re.sub(NO_CODE[path.suffix], "", path.read_text()))
    ]
    assert "core/src/claimq/item_options.py" in named
    assert len(named) <= MOST_FILES_WITH_AN_OPTION, named


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring, which may be as long as there is something to say."""
    first = function.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def _packages_above(path: Path) -> list[str]:
    """The top-level package of a module: absolute imports never find the others by their bare names."""
    packages = [folder for folder in path.parents if (folder / "__init__.py").exists()]
    return [folder.name for folder in packages[-1:]]


def test_a_folder_has_at_most_14_modules() -> None:
    folders = {ROOT / "tests/support", ROOT / "bench"}
    code = [*sources(), *(path for path in python_files() if folders & {*path.parents})]
    counts = Counter(path.parent for path in code if not path.stem.startswith("__"))
    assert {shown(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_a_class_has_at_most_20_methods_inherited_ones_counted() -> None:
    """Except the public queue, and the parts of which it is made."""
    classes = {
        (_module(path), node.name): node
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    }
    imports = {_module(path): _imports(parsed(path)) for path in sources()}
    families = {key: [*_family(key, classes, imports)] for key in classes}
    methods = {
        key: len({method for _, node in family for method in _methods(node)})
        for key, family in families.items()
        if "QueuePart" not in {base for (_, base), _ in family}
    }
    assert {name: count for (_, name), count in methods.items() if count > MOST_METHODS} == {}


Key = tuple[str, str]
"""The module and the name of a class."""
Classes = dict[Key, ast.ClassDef]


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts[path.parts.index("src") + 1 :])


def _imports(tree: ast.Module) -> dict[str, str]:
    """Names of a module, with the modules from which they are imported."""
    return {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _family(
    key: Key, classes: Classes, imports: dict[str, dict[str, str]]
) -> Iterator[tuple[Key, ast.ClassDef]]:
    """A class and its bases, as far as these are ours."""
    yield key, classes[key]
    for base in classes[key].bases:
        name = ast.unparse(base).partition("[")[0]
        origin = imports[key[0]].get(name, key[0])
        if (origin, name) in classes:
            yield from _family((origin, name), classes, imports)


def _methods(node: ast.ClassDef) -> set[str]:
    return {entry.name for entry in node.body if isinstance(entry, ast.FunctionDef | ast.AsyncFunctionDef)}
