"""Reads the files with manifests that commands name."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from claimq.errors import InvalidSpec, Problem
from claimq_cli.errors import BAD_MANIFEST, USAGE, CommandError
from claimq_spec.manifest import Manifest, parse_manifest


def load_manifests(
    file: Path, *, url: str | None = None, command: str | None = None, local: bool = True
) -> tuple[Manifest, ...]:
    """All queues of a file. InvalidSpec with the errors of all documents; CommandError if the file cannot be read."""
    words = _words(command)
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    documents = _documents(file)
    for number, document in enumerate(documents, 1):
        try:
            manifests.append(parse_manifest(document, local=local, redis_url=url, command=words))
        except InvalidSpec as error:
            before = f"document {number}: " if len(documents) > 1 else ""
            problems += [Problem(f"{before}{one.field}", one.message) for one in error.problems]
    names = [manifest.spec.queue_name for manifest in manifests]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(
            Problem("spec.queueName", f"is {name} in several documents; give each queue a unique name")
        )
    if problems:
        raise InvalidSpec(problems)
    return tuple(manifests)


def _words(command: str | None) -> list[str] | None:
    try:
        return shlex.split(command) if command else None
    except ValueError as error:
        raise CommandError(
            f"--command cannot be split into words ({error}); correct its quotes", USAGE
        ) from error


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys instead of using the last one."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (name := (key.tag, key.value)) in seen:
                problem = f"the key {key.value} is a duplicate of line {seen[name] + 1}; remove one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen[name] = key.start_mark.line
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
        documents = [one for one in yaml.load_all(text, _UniqueKeys) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CommandError(
            f"{file} is not YAML{where}: {getattr(error, 'problem', error)}", BAD_MANIFEST
        ) from error
    if not documents:
        raise CommandError(
            f"{file} is empty; write a ReliableQueue in it (see docs/manifest.md)", BAD_MANIFEST
        )
    return cast("list[Mapping[str, object]]", documents)
