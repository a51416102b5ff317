"""What is written down about a cluster, so that any later run knows what it finds."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from clusterkit.errors import HarnessError
from clusterkit.layout import Layout, Node, node


@dataclass(frozen=True)
class State:
    """`stage` is "starting" until everything is ready, then "up". `boot` changes when the machine restarts.
    `kubernetes` is the release that runs.
    """

    nodes: int
    stage: str
    boot: str
    kubernetes: str

    def names(self) -> list[Node]:
        return [node(number) for number in range(1, self.nodes + 1)]


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def write_state(layout: Layout, state: State) -> None:
    """In one step: a reader finds the old or the new."""
    half = layout.state.with_suffix(".new")
    half.write_text(json.dumps(asdict(state)))
    half.replace(layout.state)


def read_state(layout: Layout) -> State | None:
    """None when there is no cluster of that name, or only remains without a readable state."""
    try:
        return State(**json.loads(layout.state.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def require_up(layout: Layout) -> State:
    """The state of a cluster that is up; HarnessError otherwise."""
    state = read_state(layout)
    if state is None or state.stage != "up" or state.boot != boot_id():
        raise HarnessError(f"the cluster {layout.name!r} is not up: make cluster-up")
    return state
