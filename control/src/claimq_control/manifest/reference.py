"""Generates the reference page of the manifest. A test compares it with ``docs/manifest.md``.

``python -m claimq_control.manifest.reference > docs/manifest.md`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from claimq_control.manifest.declaring import UNLIMITED, Declared, Kind, walk
from claimq_control.manifest.parsing import KIND, LONGEST_NAME
from claimq_control.manifest.queue_spec import QueueSpec
from claimq_process.names import API_VERSION

_TYPES = {
    Kind.CHOICE: "text",
    Kind.DURATION: "duration",
    Kind.SIZE: "size",
    Kind.TEXTS: "list of texts",
    Kind.TEXT_MAP: "map of texts",
    Kind.FREE: "object",
    Kind.FREE_LIST: "list of objects",
}

_HEAD = f"""# The manifest

Every field of a `{KIND}` (`{API_VERSION}`), for a cluster and for `claimq up`. This page is made from the declarations
in `control/src/claimq_control/manifest/` by `python -m claimq_control.manifest.reference`; change them, not this page.

## Forms

- **duration**: a text of hours, minutes, seconds and milliseconds in this order, each with its unit: `30s`, `5m`,
  `1h30m`, `1.5s`, `250ms`. There are no days: 7 days are `168h`. A number without unit is an error.
- **size**: bytes, as a number or as a text with `Ki`, `Mi`, `Gi` (powers of 1024) or `k`, `M`, `G` (powers of 1000).
- **quantity**: as in Kubernetes: `500m`, `2`, `256Mi`.

An unknown field is an error, and so is a value out of bounds; all errors of a manifest are reported at once.

`metadata.name` has at most {LONGEST_NAME} characters, so that the names of the pods fit into a label.

In local mode (`claimq up -f FILE`) `redis` and `worker.image` may be absent, and `worker.command` may not. There are no
Secrets there: a queue whose address is in one (`redis.secretRef`) gets a server of its own, unless `--redis URL` names
another.

This page and the CustomResourceDefinition are made from the same declarations, so
`kubectl explain reliablequeues.spec --recursive` shows the same.
"""


def reference_page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    fields = list(walk(QueueSpec, "spec"))
    groups: dict[str, list[tuple[str, Declared]]] = {"spec": []}
    for path, declared in fields:
        top = ".".join(path.replace("[]", "").split(".")[:2])
        is_group = declared.nested is not None and path == top
        group = groups.setdefault(top, []) if top in groups or is_group else groups["spec"]
        group.append((path, declared))
        if is_group:
            groups["spec"].append((path, declared))
    for title, members in groups.items():
        yield f"## `{title}`\n"
        yield "| field | type | default | description |"
        yield "| --- | --- | --- | --- |"
        for path, declared in members:
            if title == "spec" or path != title:
                yield _row(path, declared)
        yield ""


def _row(path: str, declared: Declared) -> str:
    kind = _TYPES.get(declared.kind, declared.kind.value)
    if declared.choices:
        kind = " or ".join(f"`{choice}`" for choice in declared.choices)
    default = f"`{declared.default_text()}`" if declared.default is not None else declared.absent
    if declared.required:
        default = "required"
    says = [declared.doc]
    if bounds := declared.range():
        unit = " entries" if declared.kind in (Kind.TEXTS, Kind.OBJECTS, Kind.FREE_LIST) else ""
        unlimited = f", or `{UNLIMITED}`" if declared.unlimited else ""
        says.append(f"Allowed: {bounds.removeprefix('of ')}{unit}{unlimited}.")
    if declared.immutable:
        says.append("Cannot be changed later.")
    cells = (f"`{path}`", kind, default, " ".join(says))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    print(reference_page(), end="")  # noqa: T201 - this is what it is for
