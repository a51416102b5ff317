"""Merges the metrics of several sidecars into one page. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r"# (HELP|TYPE) (claimq_sidecar_\w+) .*")
_UP = "claimq_sidecar_up"
_UP_COMMENTS = {
    "HELP": f"# HELP {_UP} 1 if the sidecar of the worker answered this scrape, 0 if it did not.",
    "TYPE": f"# TYPE {_UP} gauge",
}
_SAMPLE = re.compile(r"(claimq_sidecar_\w+)(?:\{(.*)\})? (\S+)")


@dataclass(slots=True)
class _Family:
    comments: dict[str, str]
    samples: list[str] = field(default_factory=list[str])


def merged(pages: Iterable[tuple[Mapping[str, str], str | None]]) -> str:
    """One page with the series of all pages, each series with the labels given for its page. ``claimq_sidecar_up``
    reports which sidecars did not answer: their page is None.

    Only metrics of sidecars are taken, each family once. Lines that are none of a page of metrics are left out. The
    values of the labels must need no escape.
    """
    families: dict[str, _Family] = {}
    for labels, page in pages:
        own = ",".join(f'{name}="{value}"' for name, value in labels.items())
        up = families.setdefault(_UP, _Family(_UP_COMMENTS))
        up.samples.append(f"{_UP}{{{own}}} {int(page is not None)}")
        family = None
        for line in (page or "").splitlines():
            if (comment := _COMMENT.fullmatch(line)) is not None:
                family = families.setdefault(comment[2], _Family({}))
                family.comments.setdefault(comment[1], line)
            elif family is not None and (sample := _SAMPLE.fullmatch(line)) is not None:
                name, more, value = sample.groups()
                family.samples.append(f"{name}{{{own}{',' if more else ''}{more or ''}}} {value}")
    lines = (line for family in families.values() for line in (*family.comments.values(), *family.samples))
    return "".join(f"{line}\n" for line in lines)
