"""Queries for the curves of a queue, and what the replies of Prometheus mean. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from claimq_cli.web.curves import Curves

COUNT: Final = 239
"""Instants of a curve: with the latest sample 240, which a plot shows without leaving any out."""
_LATE_MINUTES: Final = 10
_SHORTEST_WINDOW: Final = 240
"""Seconds over which rates are means: four scrapes, if there is one in a minute."""
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_nan = float("nan")


class NoCurves(Exception):
    """Why there are no curves of a queue: a sentence for users, without text of the server."""


class NoData(NoCurves):
    """The server has no curves of this queue."""


@dataclass(frozen=True, slots=True)
class Query:
    """A metric of the operator. ``curves``: values of its label, and the names of their curves."""

    metric: str
    label: str
    curves: Mapping[str, str]
    is_total: bool = False

    def expression(self, namespace: str, name: str, window: int) -> str:
        """In PromQL. The operator's replicas, and an operator that was restarted, export the same queue: each has the
        server's numbers, so they are not added. ``window``: seconds of a rate.
        """
        values = "|".join(self.curves)
        chosen = (
            f'{self.metric}{{namespace={_quoted(namespace)},name={_quoted(name)},{self.label}=~"{values}"}}'
        )
        if self.is_total:
            chosen = f"rate({chosen}[{window}s])"
        return f"max by ({self.label}) ({chosen})"


QUERIES: Final[Mapping[str, Query]] = {
    "items": Query("claimq_queue_items", "state", {one: one for one in ("main", "busy", "delayed")}),
    "age": Query("claimq_queue_oldest_age_seconds", "state", {"main": "age"}),
    "rates": Query(
        "claimq_queue_transitions_total",
        "kind",
        {one: one for one in ("enqueued", "done", "failed")},
        is_total=True,
    ),
    "workers": Query("claimq_queue_workers", "kind", {one: one for one in ("desired", "ready", "busy")}),
}
"""By the plot that shows its curves."""


def _quoted(value: str) -> str:
    # PromQL has the escapes of JSON, but not its pairs of \\u for one character.
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Range:
    """The instants of a curve: multiples of ``step``, so that curves keep their points while time passes."""

    begin: int
    step: int

    @staticmethod
    def of(hours: int, until: float) -> Range:
        """About so many hours until an instant. ValueError or OverflowError for one that is none."""
        step = hours * 15
        return Range(int(until // step) * step - (COUNT - 1) * step, step)

    @property
    def end(self) -> int:
        """The last instant."""
        return self.begin + (COUNT - 1) * self.step


def paths(queue: str, reach: Range) -> Mapping[str, str]:
    """The paths of the requests, by plot. NoData for a queue that cannot have the default name of a ReliableQueue,
    which is ``NAMESPACE.NAME``.
    """
    namespace, _, name = queue.partition(".")
    if not namespace or not name:
        raise NoData(
            "Prometheus has no data of this queue: its name is not NAMESPACE.NAME of a ReliableQueue"
        )
    window = max(_SHORTEST_WINDOW, reach.step)
    common = {"start": reach.begin, "end": reach.end, "step": reach.step, "timeout": "2s"}
    return {
        plot: "/api/v1/query_range?"
        + urlencode({"query": query.expression(namespace, name, window), **common})
        for plot, query in QUERIES.items()
    }


def curves_in(replies: Mapping[str, bytes], reach: Range) -> Curves:
    """The curves in the replies, from the first instant with an item count. NoCurves if they cannot be read, NoData
    if they are not about the last minutes.
    """
    try:
        found = {plot: _values(QUERIES[plot], reply, reach) for plot, reply in replies.items()}
    except _UNREADABLE as error:
        raise NoCurves("the answer of Prometheus cannot be read") from error
    known = [n for n, value in enumerate(found["items"]["main"]) if not math.isnan(value)]
    if not known or (COUNT - 1 - known[-1]) * reach.step > _LATE_MINUTES * 60:
        raise NoData(f"Prometheus has no data of this queue from the last {_LATE_MINUTES} minutes")
    instants = range(reach.begin, reach.end + 1, reach.step)
    return {
        plot: {name: [*zip(instants, values, strict=True)][known[0] :] for name, values in curves.items()}
        for plot, curves in found.items()
    }


def _values(query: Query, reply: bytes, reach: Range) -> dict[str, list[float]]:
    """The values of each curve at the instants of the range; NaN where there is none, or none that a queue can have."""
    document: Any = json.loads(reply)
    if document["status"] != "success" or document["data"]["resultType"] != "matrix":
        raise ValueError("not a matrix")
    curves = {name: [_nan] * COUNT for name in query.curves.values()}
    for series in document["data"]["result"]:
        values = curves[query.curves[series["metric"][query.label]]]
        for at, text in series["values"]:
            n, value = round((at - reach.begin) / reach.step), float(text)
            if 0 <= n < COUNT and 0 <= value < math.inf:
                values[n] = value
    return curves
