"""Programs to be killed: `python -m testkit.workers.killed_programs ROLE URL LOG NAME SEED ...`.

Each writes down what it does. A line is written in one piece before and after each call, so that SIGKILL leaves at
most one call unknown.
"""

import asyncio
import json
import os
import random
import secrets
import sys
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import claimq
import claimq.worker
from claimq.errors import StoreUnavailable
from claimq.tokens import number_of
from testkit.checkers.history import Event
from testkit.programs.processes import whole_lines
from testkit.queues.retries import retrying_at_once
from testkit.workers.sidecars import OpenStream, UnixConnection

QUEUE = "kill"
SEED = int(os.environ.get("CLAIMQ_KILL_SEED", "0")) or secrets.randbelow(10**6) + 1
LIMIT = 3
POLICY = retrying_at_once(requeue_limit=LIMIT, busy_expiry=1.5)
RETRY_FOR = 60.0
KEYS = (None, "k", "l", "m", "n")
"""Of items in a queue with limits per key; those that have one cost 1 to 3."""
STREAM = {"window": 20, "encoding": "text"}


class Log:
    """A history of one process, in a file that may hold those of its earlier lives."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        self._process = process

    def write(self, op: str, phase: str, rows: Iterable[tuple[Any, ...]] = ()) -> None:
        line = json.dumps([self._process, time.monotonic(), op, phase, list(rows)])
        os.write(self._file, line.encode() + b"\n")


def read_log(path: Path) -> list[Event]:
    """The events in a log; a last line that was cut off is left out."""
    rows = map(json.loads, whole_lines(path))
    return [Event(who, at, op, phase, tuple(map(tuple, items))) for who, at, op, phase, items in rows]


def connect(url: str) -> claimq.Server:
    return claimq.connect(settings=claimq.RedisSettings(url, retry_for=RETRY_FOR))


async def produce(url: str, path: Path, name: str, seed: int, count: int, *, own_ids: bool) -> None:
    """Enqueues `count` items over all its lives; with ids of its own it repeats what it does not know to be stored."""
    events = read_log(path)
    begun = [row[0] for event in events if event.phase == "begin" for row in event.rows]
    stored = {row[0] for event in events if event.phase == "end" for row in event.rows}
    unknown = [item for item in dict.fromkeys(begun) if item not in stored] if own_ids else []
    base = name.partition("#")[0]
    todo = unknown + [f"{base}-{k}" for k in range(len(set(begun)), count)]
    log, chance = Log(path, name), random.Random(seed)
    async with connect(url) as server:
        queue = server.queue(QUEUE)
        keys = KEYS if any(limit.per == "key" for limit in (await queue.policy()).limits) else (None,)
        while todo:
            batch, todo = todo[: (size := chance.randint(1, 5))], todo[size:]
            log.write("enqueue", "begin", [(item,) for item in batch])
            await queue.enqueue_many(
                claimq.NewItem(
                    item, id=item if own_ids else None, client=chance.choice((None, "a", "b")),
                    key=(key := chance.choice(keys)), cost=chance.choice((1, 1, 2, 3)) if key else 1,
                )
                for item in batch
            )  # fmt: skip
            log.write("enqueue", "end", [(item,) for item in batch])
            await asyncio.sleep(chance.random() * 0.004)


def fate(item: str, chance: random.Random) -> str:
    """What a worker does with an item: some never succeed, some kill their claim's lease each time."""
    kind = sum(item.encode()) % 61
    if kind < 2:
        return ("fail", "forget")[kind]
    return chance.choices(("done", "fail", "requeue", "unclaim", "follow"), (80, 4, 4, 6, 6))[0]


async def work(url: str, path: Path, name: str, seed: int) -> None:
    """Claims and ends claims, in any way there is, until it is killed."""
    log, chance = Log(path, name), random.Random(seed)
    async with connect(url) as server:
        queue = server.queue(QUEUE, worker=name.replace("#", "."))
        while True:
            log.write("claim", "begin")
            claims = await queue.claim(chance.randint(1, 10), wait=0.2)
            log.write(
                "claim", "end", [(claim.item.text, claim.token, claim.item.requeue_count) for claim in claims]
            )
            await asyncio.sleep(chance.random() * 0.01)
            fates: dict[str, list[claimq.Claim]] = {}
            for claim in claims:
                fates.setdefault(fate(claim.item.text, chance), []).append(claim)
            for kind, chosen in fates.items():
                await end(queue, log, kind, chosen)


async def end(queue: claimq.ReliableQueue, log: Log, kind: str, claims: list[claimq.Claim]) -> None:
    if kind == "forget":
        return
    rows = [(claim.item.text, claim.token) for claim in claims]
    followers = [f"{item}+{number_of(token)}" for item, token in rows] if kind == "follow" else []
    followers = [follower for follower in followers if follower.count("+") == 1]
    if followers:
        log.write("enqueue", "begin", [(follower,) for follower in followers])
    log.write("done" if kind == "follow" else kind, "begin", rows)
    if kind == "follow":
        wanted = {follower.partition("+")[0]: [follower] for follower in followers}
        outcomes = await queue.done([claimq.Done(claim, wanted.get(claim.item.text, [])) for claim in claims])
    elif kind == "fail":
        outcomes = await queue.fail(claims, "not this time")
    elif kind == "requeue":
        outcomes = await queue.requeue(claims)
    elif kind == "unclaim":
        outcomes = await queue.unclaim(claims)
    else:
        outcomes = await queue.done(claims)
    ended = [(item, token, one.verdict.value) for (item, token), one in zip(rows, outcomes, strict=True)]
    log.write("done" if kind == "follow" else kind, "end", ended)
    done = {item for item, _, verdict in ended if verdict == "done"}
    if followers:
        log.write("enqueue", "end", [(one,) for one in followers if one.partition("+")[0] in done])


async def reap(url: str, path: Path, name: str) -> None:
    """Sweeps all the time until it is killed."""
    log = Log(path, name)
    async with connect(url) as server:
        queue = server.queue(QUEUE)
        while True:
            log.write("expired", "begin")
            reaped = await queue.reap(200)
            log.write("expired", "end", [("", one.token, one.verdict.value) for one in reaped.expired])
            await asyncio.sleep(0 if reaped.more else 0.01)


def use_sidecar(socket: str, path: Path, name: str, seed: int) -> None:
    """The same as `work` over a sidecar's socket, with the client for apps; a call that fails stays unknown.

    A drain ends the use of a client; another one follows, as of an app that was restarted with its sidecar.
    """
    log, chance = Log(path, name), random.Random(seed)
    while True:
        with suppress(claimq.ClaimqError), claimq.worker.connect(socket) as worker:
            while not worker.draining:
                use_worker(worker, log, chance)
            log.write("unclaim", "begin", [(item.text, item.token) for item in worker.in_flight])


def use_worker(worker: claimq.worker.Worker, log: Log, chance: random.Random) -> None:
    """Claims some items and ends them."""
    try:
        if chance.random() < 0.5:
            loop_over_sidecar(worker, log, chance)
        log.write("claim", "begin")
        items = worker.claim(chance.randint(1, 10), wait=0.2)
        log.write("claim", "end", [(item.text, item.token, item.requeue_count) for item in items])
        fates: dict[str, list[claimq.worker.Item]] = {}
        for item in items:
            fates.setdefault(fate(item.text, chance), []).append(item)
        for kind, chosen in fates.items():
            end_over_sidecar(worker, log, kind, chosen)
    except claimq.ClaimqError:
        # What is in progress would be renewed as long as this process lives.
        log.write("unclaim", "begin", [(item.text, item.token) for item in worker.in_flight])
        with suppress(claimq.ClaimqError):
            worker.unclaim(worker.in_flight)


def loop_over_sidecar(worker: claimq.worker.Worker, log: Log, chance: random.Random) -> None:
    """Some items by the natural loop, where the end of a block may claim the next item."""
    left = chance.randint(1, 20)
    log.write("claim", "begin")
    for item in worker.items(wait=0.2, handle_signals=False):
        log.write("claim", "end", [(item.text, item.token, item.requeue_count)])
        verb = "fail" if fate(item.text, chance) == "fail" else "done"
        log.write(verb, "begin", [(item.text, item.token)])
        log.write("claim", "begin")
        with item:
            if verb == "fail":
                raise RuntimeError("not this time")
        if item.outcome is not None:
            log.write(verb, "end", [(item.text, item.token, item.outcome.verdict)])
        left -= 1
        if left == 0:
            return


def use_stream(socket: str, path: Path, name: str, seed: int) -> None:
    """The same over a stream, with verdicts in batches; each break of the stream is followed by another one."""
    log, chance = Log(path, name), random.Random(seed)
    held: dict[str, str] = {}
    while True:
        try:
            with closing(OpenStream(Path(socket), {**STREAM, "tokens": list(held)})) as stream:
                for token in stream.first.get("lost", ()):
                    del held[token]
                end_of_stream(socket, log, held, chance)
                log.write("claim", "begin")
                while (line := stream.line()) is not None:
                    claims = line.get("claims", [])
                    rows = [(claim["text"], claim["token"], claim["requeue_count"]) for claim in claims]
                    log.write("claim", "end", rows)
                    log.write("claim", "begin")
                    held |= {token: item for item, token, _ in rows}
                    time.sleep(chance.random() * 0.01)
                    end_of_stream(socket, log, held, chance)
        except (OSError, HTTPException, TypeError, ValueError):
            time.sleep(0.02)  # the sidecar is away


def end_of_stream(socket: str, log: Log, held: dict[str, str], chance: random.Random) -> None:
    """The verdicts on what a stream has delivered so far, in one request. What it does not answer is repeated."""
    verdicts: dict[str, list[Any]] = {}
    for token, item in held.items():
        kind = fate(item, chance)
        verb = {"follow": "done", "forget": "fail"}.get(kind, kind)
        verdicts.setdefault(verb, []).append({"token": token, **({"error": "no"} if verb == "fail" else {})})
    for verb, listed in verdicts.items():
        log.write(verb, "begin", [(held[one["token"]], one["token"]) for one in listed])
    if not verdicts:
        return
    with closing(UnixConnection(Path(socket))) as connection:
        answer = connection.ask("POST", "/v1/verdicts", verdicts)
    if answer.status != 200:
        return
    outcomes = {one["token"]: one.get("earlier", one["outcome"]) for one in answer.json["outcomes"]}
    for verb, listed in verdicts.items():
        tokens = [one["token"] for one in listed]
        log.write(verb, "end", [(held.pop(token), token, outcomes[token]) for token in tokens])


def end_over_sidecar(
    worker: claimq.worker.Worker, log: Log, kind: str, items: list[claimq.worker.Item]
) -> None:
    verb = {"follow": "done", "forget": "fail"}.get(kind, kind)  # a session forgets nothing
    rows = [(item.text, item.token) for item in items]
    log.write(verb, "begin", rows)
    if verb == "fail":
        outcomes = worker.fail(items, "not this time")
    else:
        verdicts = {"done": worker.done, "unclaim": worker.unclaim, "requeue": worker.requeue}
        outcomes = verdicts[verb](items)
    log.write(verb, "end", [(*row, one.verdict) for row, one in zip(rows, outcomes, strict=True)])


def main(words: list[str]) -> None:
    kind, url, path, name, seed, *rest = words
    try:
        if kind == "producer":
            asyncio.run(produce(url, Path(path), name, int(seed), int(rest[0]), own_ids=rest[1] == "own"))
        elif kind in {"app", "stream"}:
            use = use_stream if kind == "stream" else use_sidecar
            use(rest[0], Path(path), name, int(seed))
        elif kind == "worker":
            asyncio.run(work(url, Path(path), name, int(seed)))
        else:
            asyncio.run(reap(url, Path(path), name))
    except StoreUnavailable as error:
        sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
