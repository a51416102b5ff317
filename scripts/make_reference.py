"""Writes the reference pages in docs/reference from the code: `python scripts/make_reference.py`."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
import yaml
from command_line import commands_of, exit_codes, root  # type: ignore[import-not-found]  # a script beside this one
from prometheus_client import CollectorRegistry
from wrap_markdown import wrap  # type: ignore[import-not-found]  # a script beside this one

import claimq.metrics
import claimq.tasks
import claimq.testing
import claimq.worker
from claimq.address.server_parts import SERVER_PARTS, ServerPart
from claimq.model import HistoryEntry, Located, State
from claimq_admin.reads import documents
from claimq_cli.program import cli
from claimq_control.decide.conditions.meanings import EVENTS, MEANINGS
from claimq_control.grants import Grants, QueueGrants
from claimq_control.queue_metrics import QueueMetrics
from claimq_control.scaling.values import ScalingRule
from claimq_operator.grants import RESTRICTIONS
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.metrics import Metrics as OperatorMetrics
from claimq_process.duration import format_duration
from claimq_process.size import format_size
from claimq_sidecar.metrics import Metrics as SidecarMetrics
from claimq_sidecar.metrics import PushMetrics
from claimq_sidecar.settings import PushSettings, SidecarSettings

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
CRD = ROOT / "crds" / "reliablequeues.claimq.dev.yaml"
GENERATED = "Generated from the code by `python scripts/make_reference.py`: change the code, not this page."
_MIB = 2**20

QUEUE_METHODS = {
    "Producing": "enqueue enqueue_many",
    "Working": "claim claim_item done fail drop requeue later unclaim crash renew consume",
    "Policy": "policy set_policy update_policy set_limit remove_limit reset_limits pause resume",
    "Inspecting": "snapshot exists length lengths age stats clients client_length has_client peek items longest_claims"
    " find where workers memory_usage memory_share server_memory audit_log add_to_index is_closed",
    "Failed items": "failed_items failed_item failed_reasons requeue_failed requeue_failed_item remove_failed"
    " remove_failed_item drain_failed apply_failed_policy removed_items",
    "Maintaining": "reap release_worker record_action flush flush_client delete",
}
"""The methods of a queue by subject. A new one belongs in one of these lists."""
TABLES = {claimq.Policy}
"""Classes whose fields have docstrings and defaults."""


def library_page() -> str:
    """The Python API, from its docstrings."""
    parts = [
        (
            "# The library\n\nEvery call of the Python package `claimq`, from its docstrings. How to use them, with "
            f"examples: [using the library](../operations.md). {GENERATED}\n\n`claimq.blocking` has the same calls "
            "without `await`. A `Duration` is a number of seconds or a `timedelta`. An `Instant` is Unix seconds by "
            "the server's clock, or a `datetime` with a time zone."
        ),
        _section("connect", claimq.connect, level=2),
        _class("Server", claimq.Server, "queue enqueue queues ping report close"),
    ]
    for subject, names in QUEUE_METHODS.items():
        parts.append(f"## ReliableQueue: {subject}")
        parts += [_section(f"queue.{name}", getattr(claimq.ReliableQueue, name)) for name in names.split()]
    missing = _public(claimq.ReliableQueue) - set(" ".join(QUEUE_METHODS.values()).split())
    if missing:
        raise ValueError(f"add these to QUEUE_METHODS of scripts/make_reference.py: {sorted(missing)}")
    parts.append("## Values")
    shown = {"connect", "Server", "ReliableQueue"}
    values = [name for name in claimq.__all__ if name not in shown and inspect.isclass(getattr(claimq, name))]
    parts += [_value(name, getattr(claimq, name)) for name in values if not _is_error(name)]
    parts.append("## Errors\n\n| error | when, and what to do |\n| --- | --- |")
    parts[-1] += "".join(
        f"\n| `{name}`{_base(name)} | {_cell(_doc(getattr(claimq, name)))} |"
        for name in values
        if _is_error(name)
    )
    worker = "items claim done fail requeue unclaim renew enqueue enqueue_many info stop draining close"
    parts += [
        _section("worker.connect", claimq.worker.connect, level=2),
        _class("worker.Worker", claimq.worker.Worker, worker),
        _class("worker.Item", claimq.worker.Item, "done fail requeue later unclaim renew"),
        _class("tasks.App", claimq.tasks.App, "task run run_async handle"),
        _class("tasks.Task", claimq.tasks.Task, "enqueue enqueue_async options item"),
        _section("tasks.current_item", claimq.tasks.current_item, level=2),
        _class("metrics.ConsumerMetrics", claimq.metrics.ConsumerMetrics, ""),
        _class("testing.EmbeddedServer", claimq.testing.EmbeddedServer, "queue run_worker sidecar"),
        _section("testing.assert_enqueued", claimq.testing.assert_enqueued, level=2),
        _section("testing.make_item", claimq.testing.make_item, level=2),
    ]
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """The commands, from their help."""
    program = root()
    parts = [
        f"# Commands\n\nEvery command and option of `claimq`, as `claimq COMMAND --help` shows them. {GENERATED}",
        "Which server they use, formats and examples: [the command line](../cli.md).",
        f"## All commands\n\n{_options(program, set())}",
        "## Exit codes\n\n| code | meaning |\n| --- | --- |\n"
        + "\n".join(f"| {code} | {_cell(text)} |" for code, text in exit_codes())
        + "\n\n`claimq check` exits as a plugin of a monitoring system does, see its help.",
        _documents(),
    ]
    common: set[str | None] = {option.name for option in cli.params}
    for context in commands_of(program):
        usage = " ".join(context.command.collect_usage_pieces(context))
        parts += [
            f"## {context.command_path}",
            f"    {context.command_path} {usage}",
            *_help(context.command),
        ]
        if options := _options(context, common):
            parts.append(options)
    return "\n\n".join(parts) + "\n"


def _documents() -> str:
    """The documents that several commands print."""
    entry = HistoryEntry(0, "", "", "")
    source = claimq.testing.make_item("")._replace(history=(entry,))
    located = documents.located(Located(source, State.MAIN, payload_size=0))
    item = located.pop("item")
    item.pop("payload_size")
    (history,) = item.pop("history")
    return (
        f"## Documents\n\n{_doc(documents)}\n\n"
        f'ITEM is `{{{_names(item)}, "history": [{{{_names(history)}}}]}}` with the payload. '
        f'LOCATED is `{{{_names(located)}, "item": ITEM}}`.'
    )


def _names(document: Mapping[str, Any]) -> str:
    return json.dumps(list(document))[1:-1]


def settings_page() -> str:
    """The environment variables of sidecar and operator, from the docstrings of their settings."""
    words = "".join(f"\n| `{word}` | {fields} |" for word, fields in RESTRICTIONS.items())
    return (
        f"# Settings\n\nThe environment variables of the sidecar and the operator. {GENERATED}\n\nInvalid settings are "
        "all reported at once, one line each, with exit code 2. Durations are written like `30s`, `5m` or `1h30m`, "
        "sizes like `16Mi`.\n\n## The sidecar\n\nLocal mode and the operator set these variables for you.\n\n"
        f"{_settings(SidecarSettings, PushSettings, parts=SERVER_PARTS)}\n\n## The operator\n\nThe chart sets these "
        f"variables.\n\n{_settings(OperatorSettings, QueueGrants)}\n\n## What workers may use\n\nThe words of "
        "`CLAIMQ_WORKERS_MAY`, and the fields of `spec.worker.template` that each allows.\n\n"
        f"| word | fields |\n| --- | --- |{words}\n"
    )


def metrics_page() -> str:
    """The metrics of all programs, from their registries."""
    sidecar, pushes, consumer = SidecarMetrics().registry, CollectorRegistry(), CollectorRegistry()
    PushMetrics(pushes)
    claimq.metrics.ConsumerMetrics(registry=consumer)
    tables = {
        "Queues": (
            "Exported by the operator, and by `claimq up` at `/metrics` of its page.",
            QueueMetrics().registry,
        ),
        "The operator": ("Exported on `CLAIMQ_HTTP_PORT` (8080).", OperatorMetrics().registry),
        "Sidecars": ("Exported on the [health port](../sidecar.md#the-health-port).", sidecar),
        "Push delivery": ("Exported by sidecars that [send items to the app](../push.md).", pushes),
        "Programs without a sidecar": ("Exported by [programs that use `consume`](../metrics.md).", consumer),
    }
    text = (
        "# Metrics\n\nThe Prometheus metrics of all programs. The chart has [alerts and a dashboard]"
        f"(../../charts/claimq/README.md#metrics-alerts-and-a-dashboard) for them. {GENERATED}\n"
    )
    rows: set[str] = set()
    for title, (intro, registry) in tables.items():
        text += f"\n## {title}\n\n{intro}\n\n| metric | labels | meaning |\n| --- | --- | --- |\n"
        new = [row for row in _metric_rows(registry) if row not in rows]
        text += "".join(new)
        rows.update(new)
    return text


def status_page() -> str:
    """The fields of the status, from the CRD; conditions and rules of scaling, from the code."""
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rows = "".join(
        f"| `{path}` | {_cell(text)} |\n" for path, text in _fields(schema["properties"]["status"], "")
    )
    conditions = "".join(
        f"\n## {kind}\n\n{_markdown(meaning.about)}\n{_fixes(meaning.fixes)}"
        for kind, meaning in MEANINGS.items()
    )
    rules = "".join(f"| `{ScalingRule[name]}` | {text} |\n" for name, text in _attributes(ScalingRule))
    return (
        "# The status\n\nEvery field of `status` of a ReliableQueue, each condition, and each reason with what to do. "
        f"{GENERATED}\n\n| field | meaning |\n| --- | --- |\n{rows}{conditions}\n## Events\n\nAt most one of each "
        "reason in five seconds; the others are counted. The reasons of Stalled, `RolloutBlocked`, "
        f"`PauseForgotten`, `Full` and `OperatorConflict` are Events too.\n{_fixes(EVENTS)}\n## Rules of scaling\n\n"
        f"The values of `status.scaling.rule`.\n\n| rule | meaning |\n| --- | --- |\n{rules}"
    )


def _fixes(fixes: Mapping[str, str]) -> str:
    rows = (
        f"| {', '.join(f'`{reason}`' for reason in reasons.split(', '))} | {_cell(_markdown(fix))} |\n"
        for reasons, fix in fixes.items()
    )
    return "\n| reason | what to do |\n| --- | --- |\n" + "".join(rows) if fixes else ""


PAGES: dict[str, Callable[[], str]] = {
    "library": library_page,
    "commands": commands_page,
    "settings": settings_page,
    "metrics": metrics_page,
    "status": status_page,
}


def page(name: str) -> str:
    """The text of a page, wrapped as all pages are."""
    text: str = wrap(PAGES[name]())
    return text


def _doc(thing: Any) -> str:
    """A docstring as Markdown."""
    return _markdown(cleandoc(thing.__doc__ or ""))


def _markdown(text: str) -> str:
    text = re.sub(r":\w+:`[~.]?([^`]+)`", r"`\1`", text).replace("``", "`")
    return re.sub(r"docs/(?:decisions/)?(\w+)\.md(#[\w-]+)?", r"[\1](../\1.md\2)", text)


def _section(name: str, function: Any, *, level: int = 3) -> str:
    """A function or property: its heading, signature and docstring."""
    target = function.fget if isinstance(function, property) else function
    head = f"{'#' * level} {name}"
    if isinstance(function, property):
        return f"{head}\n\n{_doc(target)}"
    return f"{head}\n\n    {_signature(name, target)}\n\n{_doc(target)}"


def _signature(name: str, function: Any) -> str:
    text = str(inspect.signature(function)).replace("'", "").replace("(self, ", "(").replace("(self)", "()")
    text = re.sub(r"<_Default\.WAIT: [^>]*>", "...", text)
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)
    text = re.sub(r"Unpack\[(\w+)\]", r"\1", text)
    return f"{name.rpartition('.')[2]}{text}"


def _class(name: str, kind: type, methods: str) -> str:
    head = f"## {name}\n\n{_doc(kind)}"
    short = name.rpartition(".")[2]
    return "\n\n".join([head, *(_section(f"{short}.{one}", getattr(kind, one)) for one in methods.split())])


def _value(name: str, kind: type[Any]) -> str:
    """A class that programs make or get: its docstring, and a table of its documented fields."""
    text = f"### {name}\n\n{_doc(kind)}"
    if issubclass(kind, enum.Enum):
        return f"{text}\n\nValues: {', '.join(f'`{member.value}`' for member in kind)}."
    if kind in TABLES:
        rows = [f"| `{field}` | `{_default(kind, field)}` | {about} |" for field, about in _attributes(kind)]
        text += "\n\n| field | default | meaning |\n| --- | --- | --- |\n" + "\n".join(rows)
        hash_fields = (f"`{field}` ({value or 'empty'})" for field, value in kind().to_fields().items())
        text += f"\n\nFields of the hash on the server, with their defaults: {', '.join(hash_fields)}."
    elif dataclasses.is_dataclass(kind):
        text += f"\n\nFields: {', '.join(f'`{one.name}`' for one in dataclasses.fields(kind))}."
    return text


def _default(kind: type, field: str) -> str:
    """The default of a field; of a class whose fields all have one."""
    value = getattr(kind(), field)
    return type(value).__name__ + "()" if dataclasses.is_dataclass(value) else str(value)


def _is_error(name: str) -> bool:
    return issubclass(getattr(claimq, name), Exception) and name not in {"Fail", "Requeue"}


def _base(name: str) -> str:
    base = getattr(claimq, name).__bases__[-1].__name__
    return "" if base in {"ClaimqError", "Exception"} else f", a `{base}`"


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """The fields of a class that have a docstring below them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    if not isinstance(tree, ast.ClassDef):
        return
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign | ast.Assign)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            target = field.targets[0] if isinstance(field, ast.Assign) else field.target
            yield ast.unparse(target), _cell(_markdown(cleandoc(str(text.value.value))))


def _settings(*kinds: type[Any], parts: Sequence[ServerPart] = ()) -> str:
    rows = [
        f"| `{name}` | {default} | {about[0].upper()}{about[1:]} |"
        for part in parts
        for name, default, about in part.rows()
    ]
    for kind in kinds:
        defaults = {field.name: field.default for field in dataclasses.fields(kind)}
        for field, text in _attributes(kind):
            if match := re.match(r"(CLAIMQ_\w+)(, [^:(]*)?(?: \((.*?)\))?: (.*)", text):
                values = f" Values are{match[2][1:].rstrip()}." if match[2] else ""
                about = match[4][0].upper() + match[4][1:] + values
                default = match[3] or _setting(field, defaults[field])
                rows.append(f"| `{match[1]}` | {default} | {about} |")
    return "| variable | default | meaning |\n| --- | --- | --- |\n" + "\n".join(rows)


def _setting(field: str, default: Any) -> str:
    if default is dataclasses.MISSING:
        return "required"
    if isinstance(default, Grants):
        return "none"
    if not default and not isinstance(default, (bool, int)):
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{format_duration(default)}`"
    if field.endswith("_mode") and isinstance(default, int):
        return f"`{default:04o}`"
    if isinstance(default, int) and default >= _MIB:
        return f"`{format_size(default)}`"
    return f"`{default}`"


def _metric_rows(registry: CollectorRegistry) -> Iterator[str]:
    for collector in vars(registry)["_collector_to_names"]:
        for family in getattr(collector, "describe", collector.collect)():
            private: dict[str, Any] = {**vars(family), **vars(collector)}
            labels: tuple[str, ...] = private.get("_labelnames", ())
            name = family.name + ("_total" if family.type == "counter" else "")
            about = family.documentation + (" Histogram." if family.type == "histogram" else "")
            if name.startswith("claimq_"):
                yield f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {_cell(about)} |\n"


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for name, field in schema.get("properties", {}).items():
        below = f"{path}.{name}".lstrip(".")
        nested = field.get("items", field)
        yield below, field["description"]
        yield from _fields(nested, below + ("[]" if "items" in field else ""))


def _help(command: click.Command) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", cleandoc(command.help or "")):
        if paragraph.startswith("\b\n"):
            yield textwrap.indent(paragraph.removeprefix("\b\n"), "    ")
        else:
            yield paragraph


def _options(context: click.Context, without: set[str | None]) -> str:
    rows = [
        f"| `{_cell(record[0])}` | {_cell(record[1])} |"
        for option in context.command.get_params(context)
        if isinstance(option, click.Option) and option.name not in without and "--help" not in option.opts
        if (record := option.get_help_record(context))
    ]
    return "| option | meaning |\n| --- | --- |\n" + "\n".join(rows) if rows else ""


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


if __name__ == "__main__":
    for page_name in sys.argv[1:] or PAGES:
        (FOLDER / f"{page_name}.md").write_text(page(page_name))
