"""What the demo on a cluster says at its end, and its exit code. Pure, so that a test can hold it to the truth."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounting import Account  # only for its type: a test loads this file by itself

SHOWN_MISTAKES = 20


@dataclass
class Story:
    """What happened, for the summary. Instants in seconds since the items were enqueued."""

    paths: dict[str, bytes] = field(default_factory=dict[str, bytes])
    most_workers: int = 0
    killed: str = ""
    moments: dict[str, float] = field(default_factory=dict[str, float])


def closing(story: Story, found: "Account", done: int) -> tuple[list[str], int]:
    """The lines to say, and the exit code: 0 only if nothing is lost, made up or wrong, a pod was killed on the way,
    and the queue counts as many items ``done`` as there are right results."""
    mistakes = list(found.mistakes)
    if not story.killed:
        mistakes.append("no pod was killed: none had items in hand when it was time")
    if done != found.right:
        mistakes.append(f"{done} items done, but {found.right} right results")
    lines = [
        f"right      {found.right:,} checksums, each as sha256sum says",
        f"failed     {found.failed:,}, each unreadable, with its reason",
        f"repeats    {found.repeats:,} results written again after the kill, folded by item id",
        f"killed     {story.killed or 'nobody'}",
        f"workers    0 -> {story.most_workers} -> 0",
        f"times      {', '.join(f'{name} {at:.1f} s' for name, at in story.moments.items())}",
        *(f"MISTAKE    {mistake}" for mistake in mistakes[:SHOWN_MISTAKES]),
    ]
    if len(mistakes) > SHOWN_MISTAKES:
        lines.append(f"and {len(mistakes) - SHOWN_MISTAKES} mistakes more")
    lines.append("FAILED" if mistakes else "All accounted for: nothing lost, nothing made up, nothing wrong.")
    return lines, 1 if mistakes else 0
