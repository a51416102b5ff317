"""Producers, workers, reapers and the server die by SIGKILL at random points; then every item is accounted for.

CLAIMQ_KILL_SEED repeats a run's choices (not its timing); CLAIMQ_KILL_ITEMS makes it longer.
"""

import os
import random
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import claimq.blocking
from testkit import killed_programs
from testkit.forked import ForkedProcess
from testkit.history import Audit, Finding, History, Kill, check, hits_of
from testkit.plugin import ServerFactory
from testkit.processes import Process
from testkit.server import DURABLE, Server
from testkit.sidecars import Sidecar
from testkit.waiting import eventually_sync

SEED = int(os.environ.get("CLAIMQ_KILL_SEED", "0")) or secrets.randbelow(10**6) + 1
ITEMS = int(os.environ.get("CLAIMQ_KILL_ITEMS", "3000"))
"""Of each producer."""


class Cast:
    """The processes of one run. A killed one comes back under a new name (`p1#2`) and goes on where its log ends."""

    def __init__(self, server: Server, place: Path, chance: random.Random) -> None:
        self.server, self.place, self.chance = server, place, chance
        self.running: dict[str, Process] = {}
        self.commands: dict[str, list[str]] = {}
        self.lives: dict[str, int] = {}
        self.kills: list[Kill] = []
        self.sidecars: dict[str, Sidecar] = {}

    def start(self, name: str, kind: str, *rest: str) -> None:
        self.commands[name] = [kind, *rest]
        self.lives[name] = self.lives.get(name, 0) + 1
        life = f"{name}#{self.lives[name]}"
        log = self.place / f"{name}.history"
        words = [kind, self.server.url, str(log), life, str(self.chance.randrange(10**9)), *rest]
        self.running[name] = ForkedProcess(
            "testkit.killed_programs", *words, log=self.place / f"{name}.out", env={}
        )

    def start_sidecar(self, name: str) -> Sidecar:
        """Kept under one name; its socket stays where it is."""
        self.sidecars[name] = Sidecar(self.server.url, killed_programs.QUEUE, name).start()
        self.commands[name] = ["sidecar"]
        return self.sidecars[name]

    def kill(self, name: str) -> None:
        """And starts it again."""
        kind, *rest = self.commands[name]
        at = time.monotonic()
        if name == "server":
            self.server.kill9()
            self.server.start()
            with claimq.blocking.connect(self.server.url) as store:
                store.queue(killed_programs.QUEUE).reap(
                    1
                )  # a first call notes that the server is another process
            self.kills.append(Kill("server", "", at, back=time.monotonic()))
        elif name in self.sidecars:
            self.sidecars[name].kill9()
            self.kills.append(Kill("sidecar", "", at))
            self.sidecars[name].start(wait=False)
        elif self.running[name].is_running:
            self.running[name].kill9()
            self.kills.append(Kill(kind, f"{name}#{self.lives[name]}", at))
            self.start(name, kind, *rest)

    def is_over(self, name: str) -> bool:
        """Whether it has come to its own end; a failed one fails the test."""
        code = self.running[name].returncode
        assert code in (None, 0), (self.place / f"{name}.out").read_text()[-2000:]
        return code == 0

    def kill_at_random(self, until: Callable[[], bool], within: float, least_hits: dict[str, int]) -> None:
        """Kinds that were not yet hit as often as they must be come first, in random order: a fast machine is through
        soon, and on a slow one many kills come before a process has begun."""
        deadline = time.monotonic() + within
        while (missing := self.missing(least_hits)) or not until():
            assert time.monotonic() < deadline, f"the producers are not through after {within} s"
            time.sleep(self.chance.uniform(0.02, 0.25))
            kind = self.chance.choice(missing or sorted({command[0] for command in self.commands.values()}))
            name = self.chance.choice([name for name, command in self.commands.items() if command[0] == kind])
            if missing and name in self.running:
                eventually_sync(partial(self.has_begun, name), within=within, why=f"{name} has begun")
            self.kill(name)

    def has_begun(self, name: str) -> bool:
        """Whether its present life has written something, or is over."""
        path = self.place / f"{name}.history"
        life = f'["{name}#{self.lives[name]}"'
        return not self.running[name].is_running or (path.exists() and life in path.read_text())

    def missing(self, least_hits: dict[str, int]) -> list[str]:
        """The kinds that are to be hit more often. A producer comes to its own end, so it is the first."""
        events = [event for path in self.place.glob("*.history") for event in killed_programs.read_log(path)]
        hits = hits_of(self.kills, History(events, Audit([], [], {}), requeue_limit=killed_programs.LIMIT))
        kinds = [kind for kind, least in least_hits.items() if hits[kind] < least]
        return ["producer"] if "producer" in kinds else kinds

    def close(self) -> None:
        for process in self.running.values():
            process.kill9()
        for sidecar in self.sidecars.values():
            sidecar.close()


def audit(server: Server) -> Audit:
    with claimq.blocking.connect(server.url) as store:
        queue = store.queue(killed_programs.QUEUE)
        failed = [(one.item.text, one.item.requeue_count) for one in queue.items("failed", 1000)]
        remaining = [
            one.item.text for state in ("main", "busy", "delayed") for one in queue.items(state, 1000)
        ]
        return Audit(failed, remaining, dict(queue.stats()))


def drain(server: Server) -> None:
    with claimq.blocking.connect(server.url) as store:
        queue = store.queue(killed_programs.QUEUE)
        eventually_sync(
            lambda: sum(queue.lengths().values()) == queue.length("failed"),
            why="the queue is drained",
        )


def account(cast: Cast, least_hits: dict[str, int], least_items: int) -> Finding:
    events = [
        event for path in sorted(cast.place.glob("*.history")) for event in killed_programs.read_log(path)
    ]
    finding = check(
        events,
        audit(cast.server),
        cast.kills,
        requeue_limit=killed_programs.LIMIT,
        least_hits=least_hits,
        least_items=least_items,
    )
    print(
        f"seed {SEED}: {finding.verdict}; kills {len(cast.kills)}, hits {dict(finding.hits)}, {dict(finding.counts)}"
    )
    for item in {problem.partition(" ")[0] for problem in finding.problems[:20]}:
        lines = [event for event in events if any(item in map(str, row) for row in event.rows)]
        print(item, *sorted(lines, key=lambda event: event.at), sep="\n  ")
    if finding.problems:
        print("kills", *cast.kills, sep="\n  ")
    return finding


def test_every_item_is_accounted_for_after_any_process_is_killed(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    server = start_server(options=dict(DURABLE))
    with claimq.blocking.connect(server.url) as store:
        store.queue(killed_programs.QUEUE).set_policy(killed_programs.POLICY)
    cast = Cast(server, tmp_path, random.Random(SEED))
    least_hits = {"producer": 1, "worker": 3, "reaper": 1, "server": 2}
    try:
        cast.start("p1", "producer", str(ITEMS), "own")
        cast.start("p2", "producer", str(ITEMS), "auto")
        for number in (1, 2, 3):
            cast.start(f"w{number}", "worker")
        for number in (1, 2):
            cast.start(f"r{number}", "reaper")
        cast.commands["server"] = ["server"]
        cast.kill_at_random(lambda: all(map(cast.is_over, ("p1", "p2"))), 600, least_hits)
        drain(server)
    finally:
        cast.close()
    finding = account(cast, least_hits, ITEMS)
    assert finding.verdict == "valid", (SEED, finding.problems[:20])


def test_apps_and_their_sidecars_may_be_killed_as_well(start_server: ServerFactory, tmp_path: Path) -> None:
    server = start_server(options=dict(DURABLE))
    with claimq.blocking.connect(server.url) as store:
        store.queue(killed_programs.QUEUE).set_policy(killed_programs.POLICY)
    cast = Cast(server, tmp_path, random.Random(SEED + 1))
    least_hits = {"app": 1, "sidecar": 2, "server": 1}
    try:
        for number in (1, 2):
            sidecar = cast.start_sidecar(f"s{number}")
            cast.start(f"a{number}", "app", str(sidecar.socket), *(["stream"] if number == 2 else []))
        cast.start("p1", "producer", str(ITEMS), "own")
        cast.start("r1", "reaper")
        cast.commands["server"] = ["server"]
        cast.kill_at_random(lambda: cast.is_over("p1"), 600, least_hits)
        drain(server)
    finally:
        cast.close()
    finding = account(cast, least_hits, ITEMS)
    assert finding.verdict == "valid", (SEED, finding.problems[:20])
