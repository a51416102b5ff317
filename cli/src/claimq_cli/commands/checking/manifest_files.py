"""Reads the files with manifests that commands name."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import yaml

from claimq.errors import InvalidSpec, Problem
from claimq_admin.errors import BAD_MANIFEST, USAGE, CommandError
from claimq_control.manifest import Manifest, parse_manifest
from claimq_control.manifest.command_words import command_for
from claimq_control.manifest.reading import shown


def load_manifests(
    file: Path, *, url: str | None = None, command: str | None = None, local: bool = True
) -> tuple[Manifest, ...]:
    """All queues of a file. InvalidSpec with the errors of all documents; CommandError if the file cannot be read."""
    words = _words(command)
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    documents = _documents(file)
    document_problems: Sequence[Problem]
    for number, document in enumerate(documents, 1):
        try:
            manifest = parse_manifest(document, local=local, redis_url=url, command=words)
            document_problems = (
                [] if words else _program_problems(manifest.spec.worker.command, file, is_local=local)
            )
            manifests.append(manifest)
        except InvalidSpec as error:
            document_problems = error.problems if local else _with_local_advice(error.problems, document)
        before = f"document {number}: " if len(documents) > 1 else ""
        problems += [Problem(f"{before}{problem.field}", problem.message) for problem in document_problems]
    objects = [(manifest.namespace, manifest.name) for manifest in manifests]
    for namespace, name in sorted({key for key in objects if objects.count(key) > 1}):
        problems.append(
            Problem(
                "metadata.name",
                f"is {name} in several documents of the namespace {namespace}; give each ReliableQueue a unique name",
            )
        )
    names = [manifest.spec.queue_name for manifest in manifests]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(
            Problem("spec.queueName", f"is {name} in several documents; give each queue a unique name")
        )
    if problems:
        raise InvalidSpec(problems)
    return tuple(manifests)


def _with_local_advice(problems: Sequence[Problem], document: Mapping[str, object]) -> list[Problem]:
    """The problems of a document for a cluster. Those of fields that `claimq up` does not require name its option."""
    try:
        parse_manifest(document, local=True)
        local_fields: set[str] = set()
    except InvalidSpec as error:
        local_fields = {problem.field for problem in error.problems}
    return [
        problem
        if problem.field in local_fields
        else replace(
            problem,
            message=f"{problem.message}; `claimq up` does not require it: check for that with --local",
        )
        for problem in problems
    ]


def _program_problems(command: Sequence[str], file: Path, *, is_local: bool) -> list[Problem]:
    """The problem of a command whose first word is empty or a whole command line.

    A program may have a blank in its name: it is accepted if there is one. On a cluster it is in an image, so only a
    name is refused that has no '/' or begins with a program of this machine.
    """
    if not command:
        return []
    program = command[0].strip()
    if not program:
        return [Problem("spec.worker.command[0]", "must not be empty; give a program")]
    first = program.split()[0]
    has_path = "/" in program
    exists = (file.absolute().parent / program).exists() if has_path else shutil.which(program)
    if first == program or exists:
        return []
    if not is_local and has_path and ("/" in first or not shutil.which(first)):
        return []
    advice = command_for(program) if len(command) == 1 else "each of its words as an entry of its own"
    message = f"is {shown(program)}, and there is no program of that name; write {advice}"
    return [Problem("spec.worker.command[0]", message)]


def _words(command: str | None) -> list[str] | None:
    try:
        return shlex.split(command) if command else None
    except ValueError as error:
        raise CommandError(
            f"--command cannot be split into words ({error}); correct its quotes", USAGE
        ) from error


class _Loader(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys, and names the place of a bad value."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)  # pyright: ignore[reportUnknownMemberType]  # PyYAML is untyped
        except ValueError as error:  # of a date or a number
            problem = f"{error}; correct the value, or put it in quotes"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (name := (key.tag, key.value)) in lines:
                problem = f"the key {key.value} is a duplicate of line {lines[name] + 1}; remove one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[name] = key.start_mark.line
        return node


def _documents(file: Path) -> list[Mapping[str, object]]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(
            f"{file} cannot be read ({why}); give the path of a manifest", BAD_MANIFEST
        ) from error
    try:
        documents = [document for document in yaml.load_all(text, _Loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CommandError(
            f"{file} is not YAML{where}: {getattr(error, 'problem', error)}", BAD_MANIFEST
        ) from error
    except RecursionError:
        raise CommandError(
            f"{file} has hundreds of objects and lists in each other; remove the innermost", BAD_MANIFEST
        ) from None
    if not documents:
        raise CommandError(
            f"{file} is empty; write a ReliableQueue in it (see docs/manifest.md)", BAD_MANIFEST
        )
    return cast("list[Mapping[str, object]]", documents)
