"""The summary and the exit code of the demo on a cluster. Pure."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounting import Account  # only for its type: the tests load this file alone

SHOWN_MISTAKES = 20


@dataclass
class Story:
    """What happened, for the summary. Instants in seconds since the items were enqueued."""

    paths: dict[str, bytes] = field(default_factory=dict[str, bytes])
    most_workers: int = 0
    killed: str = ""
    moments: dict[str, float] = field(default_factory=dict[str, float])


def summary(story: Story, found: "Account", done: int) -> tuple[list[str], int]:
    """The lines to print and the exit code. The code is 0 only if no result is missing, invented or wrong, a pod was
    killed, and the queue counts as many items ``done`` as there are correct results.
    """
    mistakes = list(found.mistakes)
    if not story.killed:
        mistakes.append("no pod was killed: none held items at that time")
    if done != found.right:
        mistakes.append(f"{done} items done, but {found.right} correct results")
    lines = [
        f"correct    {found.right:,} checksums, equal to those of sha256sum",
        f"failed     {found.failed:,}, each unreadable, with its reason",
        f"repeats    {found.repeats:,} results written again after the kill, counted once by item id",
        f"killed     {story.killed or 'no pod'}",
        f"workers    0 -> {story.most_workers} -> 0",
        f"times      {', '.join(f'{name} {at:.1f} s' for name, at in story.moments.items())}",
        *(f"MISTAKE    {mistake}" for mistake in mistakes[:SHOWN_MISTAKES]),
    ]
    if len(mistakes) > SHOWN_MISTAKES:
        lines.append(f"and {len(mistakes) - SHOWN_MISTAKES} more mistakes")
    lines.append("FAILED" if mistakes else "All accounted for: no result is missing, invented or wrong.")
    return lines, 1 if mistakes else 0
