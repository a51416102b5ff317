"""Producers, workers, reapers, apps, sidecars and the server die by SIGKILL at random points, sidecars are drained and
their connections are cut; then every item is accounted for.

CLAIMQ_KILL_SEED repeats a run's choices (not its timing); CLAIMQ_KILL_ITEMS makes it longer.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import redis

from claimq import Limit
from testkit.checkers.history import Audit, Finding, History, Kill, check, hits_of
from testkit.checkers.starts import fullest, starts_of
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.faults.links import Fault
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ServerFactory
from testkit.programs.forked import ForkedProcess
from testkit.programs.processes import Process
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually_sync
from testkit.workers import killed_programs
from testkit.workers.killed_programs import SEED
from testkit.workers.sidecars import Sidecar

ITEMS = int(os.environ.get("CLAIMQ_KILL_ITEMS", "3000"))
"""Of each producer."""
DISTURBANCES = {"cut": 2, "lost request": 4, "lost reply": 4, "drain": 1, "killed drain": 1, "kill": 1}
"""Of a sidecar, and how often each must come in the middle of something: its connections to the server end, one ends
within a request or instead of a reply, SIGTERM, SIGKILL in the drain, and SIGKILL while its app has items."""
RATE, BUSY = Limit("api", rate="150/s", burst=8), Limit("licences", busy=20)
PARTS = [
    Limit("total", busy=16, unit="cost"), Limit("of-client", busy=9, per="client", unit="cost"),
    Limit("of-key", busy=2, per="key"),
]  # fmt: skip
"""Under these, sidecars claim ahead."""
LIMITS = pytest.mark.parametrize(
    "limits", [[], [RATE, BUSY], PARTS], ids=["no limits", "limits", "limits of parts"]
)


class Cast:
    """The processes of one run. A killed one comes back under a new name (`p1#2`) and goes on where its log ends."""

    def __init__(self, server: Server, place: Path, chance: random.Random) -> None:
        self.server, self.place, self.chance = server, place, chance
        self.running: dict[str, Process] = {}
        self.commands: dict[str, list[str]] = {}
        self.lives: dict[str, int] = {}
        self.kills: list[Kill] = []
        self.sidecars: dict[str, Sidecar] = {}
        self.proxies: dict[str, FaultProxy] = {}
        self.armed: dict[str, Fault] = {}

    def start(self, name: str, kind: str, *rest: str) -> None:
        self.commands[name] = [kind, *rest]
        self.lives[name] = self.lives.get(name, 0) + 1
        life = f"{name}#{self.lives[name]}"
        log = self.place / f"{name}.history"
        words = [kind, self.server.url, str(log), life, str(self.chance.randrange(10**9)), *rest]
        self.running[name] = ForkedProcess(
            "testkit.workers.killed_programs", *words, log=self.place / f"{name}.out", env={}
        )

    def start_sidecar(self, name: str, app: str) -> Sidecar:
        """Behind a proxy of its own; its socket stays where it is. Each of its lives has a name of its own (`s1.2`).

        Each way to disturb it is a kind of its own.
        """
        self.proxies[name] = FaultProxy(self.server.unix_path).start()
        self.sidecars[name] = Sidecar(self.proxies[name].url, killed_programs.QUEUE)
        for kind in DISTURBANCES:
            self.commands[f"{kind} {name}"] = [f"{kind} {name}", name, app]
        self.start_life(name)
        return self.sidecars[name]

    def start_life(self, name: str) -> None:
        """Starts a sidecar under its next name. In half of its lives a drain hardly waits for the app."""
        self.lives[name] = self.lives.get(name, 0) + 1
        self.sidecars[name].env["CLAIMQ_WORKER"] = f"{name}.{self.lives[name]}"
        self.sidecars[name].env["CLAIMQ_DRAIN_TIMEOUT"] = self.chance.choice(("5ms", "1s"))
        self.sidecars[name].start(wait=False)

    def kill(self, name: str) -> None:
        """And starts it again."""
        kind, *rest = self.commands[name]
        at = time.monotonic()
        if kind == "server":
            self.kill_server(at)
        elif kind.startswith("kill "):
            self.sidecars[rest[0]].kill9()
            self.kills.append(Kill(kind, rest[1], at, with_items=True))
            self.start_life(rest[0])
        elif kind.startswith("cut "):
            self.proxies[rest[0]].cut()
            self.kills.append(Kill(kind, rest[1], at))
        elif kind.startswith("lost "):
            self.lose(kind, *rest)
        elif name not in self.running:
            self.drain(kind, *rest)
        elif self.running[name].is_running:
            self.running[name].kill9()
            life = f"{name}#{self.lives[name]}"
            self.kills.append(Kill(kind, life, at, with_items=kind in {"app", "stream"}))
            self.start(name, kind, *rest)

    def kill_server(self, at: float) -> None:
        self.server.kill9()
        self.server.start()
        with open_blocking_queue(self.server.url, killed_programs.QUEUE) as queue:
            # A first call notes that the server is another process.
            queue.reap(1)
        self.kills.append(Kill("server", "", at, back=time.monotonic()))

    def lose(self, kind: str, name: str, app: str) -> None:
        """One of the sidecar's next calls about claims, which name it, ends without a reply. The server has carried it
        out (a lost reply), or not.
        """
        if kind in self.armed and self.armed[kind].hit is None:
            return
        self.armed[kind] = self.proxies[name].lose_call(
            self.chance,
            naming=f"{name}.",
            only_reply=kind.startswith("lost reply"),
            on_hit=lambda: self.kills.append(Kill(kind, app, time.monotonic())),
        )

    def drain(self, kind: str, name: str, app: str) -> None:
        """SIGTERM, in half of the cases another fault in the drain, then SIGKILL or the sidecar's own end."""
        sidecar = self.sidecars[name]
        at = time.monotonic()
        in_flight = sidecar.begin_drain()
        if self.chance.random() < 0.5:
            self.kill(
                self.chance.choice(("server", app, *(f"{one} {name}" for one in list(DISTURBANCES)[:3])))
            )
        if kind.startswith("killed"):
            time.sleep(self.chance.uniform(0, 0.01))
            code = sidecar.running.kill9()
        else:
            code = sidecar.running.wait()
        assert code in {0, -signal.SIGKILL if kind.startswith("killed") else 0}, sidecar.log_text[-2000:]
        is_hit = in_flight > 0 and (code != 0) == kind.startswith("killed")
        life = f"{name}.{self.lives[name]}"
        self.kills.append(Kill(kind, app, at, drained=life, came_in_the_middle=is_hit))
        self.start_life(name)

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
            if missing:
                self.produce_more()
            if missing and name in self.running:
                eventually_sync(partial(self.has_begun, name), within=within, why=f"{name} has begun")
            self.kill(name)

    def produce_more(self) -> None:
        """Lets producers go on that are through: without items some kinds would be missing forever."""
        for name, (kind, *rest) in list(self.commands.items()):
            if kind == "producer" and self.is_over(name):
                self.start(name, kind, str(int(rest[0]) + ITEMS // 10), *rest[1:])

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
        for closing in (*self.sidecars.values(), *self.proxies.values()):
            closing.close()


def audit(server: Server) -> Audit:
    with open_blocking_queue(server.url, killed_programs.QUEUE) as queue:
        failed = [(one.item.text, one.item.requeue_count) for one in queue.items("failed", 1000)]
        remaining = [
            one.item.text for state in ("main", "busy", "delayed") for one in queue.items(state, 1000)
        ]
        return Audit(failed, remaining, dict(queue.stats()))


def drain(server: Server) -> None:
    with open_blocking_queue(server.url, killed_programs.QUEUE) as queue:
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


def begin(start_server: ServerFactory, limits: Sequence[Limit]) -> Server:
    server = start_server(options=dict(DURABLE))
    with open_blocking_queue(server.url, killed_programs.QUEUE) as queue:
        queue.set_policy(replace(killed_programs.POLICY, limits=limits))
    return server


def check_limits(server: Server, limits: Sequence[Limit]) -> None:
    """Nothing is exceeded in the server's own record, all limits have held back items, and what they count is right."""
    with redis.Redis(unix_socket_path=str(server.unix_path)) as client:
        assert inconsistencies(read_queue(client, killed_programs.QUEUE)) == [], SEED
    server.stop()
    starts = starts_of(server.dir, killed_programs.QUEUE)
    fullest_window, burst = fullest(starts.instants, RATE), RATE.burst or 1
    print(
        f"seed {SEED}: {len(starts.instants)} starts, {fullest_window:.3f}, {starts.given_back} given back,"
        f" {starts.most_busy}, {starts.most_of_key} of a key, {starts.most_cost}"
    )
    assert starts.given_back
    if limits is PARTS:
        assert 14 <= starts.most_cost["queue"] <= 16, (SEED, starts.most_cost)
        assert 7 <= starts.most_cost["client"] <= 9, (SEED, starts.most_cost)
        assert starts.most_of_key == 2, SEED
    else:
        assert burst - 1 < fullest_window <= burst
        assert starts.most_busy == BUSY.busy


@LIMITS
def test_every_item_is_accounted_for_after_any_process_is_killed(
    start_server: ServerFactory, tmp_path: Path, limits: Sequence[Limit]
) -> None:
    server, items = begin(start_server, limits), ITEMS // (4 if limits else 1)
    cast = Cast(server, tmp_path, random.Random(SEED))
    least_hits = {"producer": 1, "worker": 3, "reaper": 1, "server": 2}
    try:
        cast.start("p1", "producer", str(items), "own")
        cast.start("p2", "producer", str(items), "auto")
        for number in (1, 2, 3):
            cast.start(f"w{number}", "worker")
        for number in (1, 2):
            cast.start(f"r{number}", "reaper")
        cast.commands["server"] = ["server"]
        cast.kill_at_random(lambda: all(map(cast.is_over, ("p1", "p2"))), 600, least_hits)
        drain(server)
    finally:
        cast.close()
    finding = account(cast, least_hits, items)
    assert finding.verdict == "valid", (SEED, finding.problems[:20])
    if limits:
        check_limits(server, limits)


@LIMITS
def test_apps_and_their_sidecars_may_be_killed_as_well(
    start_server: ServerFactory, tmp_path: Path, limits: Sequence[Limit]
) -> None:
    server, items = begin(start_server, limits), ITEMS // (4 if limits else 1)
    cast = Cast(server, tmp_path, random.Random(SEED + 1))
    least_hits = {"app": 1, "stream": 1, "server": 1}
    try:
        for number in (1, 2):
            sidecar = cast.start_sidecar(f"s{number}", f"a{number}")
            least_hits |= {f"{kind} s{number}": least for kind, least in DISTURBANCES.items()}
            cast.start(f"a{number}", "stream" if number == 2 else "app", str(sidecar.socket))
        cast.start("p1", "producer", str(items), "own")
        cast.start("r1", "reaper")
        cast.commands["server"] = ["server"]
        cast.kill_at_random(lambda: cast.is_over("p1"), 600, least_hits)
        drain(server)
    finally:
        cast.close()
    finding = account(cast, least_hits, items)
    assert finding.verdict == "valid", (SEED, finding.problems[:20])
    if limits:
        check_limits(server, limits)
