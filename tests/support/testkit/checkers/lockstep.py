"""Queues on a server and their plain models, moved together: what both say of each operation is compared."""

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest
import redis
import redis.asyncio

import claimq
from claimq.errors import ItemRefused, QueueFull
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq.model import Claim, Enqueued, NewItem, Outcome, Reason
from claimq.tokens import number_of, worker_of
from testkit.checkers.comparing import differences
from testkit.checkers.lockstep_policy import PolicyWorld
from testkit.checkers.model import QueueModel
from testkit.checkers.model_item import ModelItem, Order
from testkit.checkers.model_refusals import refusals, refused_items
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.queues.frozen_clock import BEGIN_MS, FrozenClock
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

T = TypeVar("T")
CLOSINGS = ("queue", "client")
New = tuple[bytes, str | None, str | None, float | None]
"""What a producer says of an item: payload, its own id, client, delay in seconds."""


class World(PolicyWorld):
    """Some queues on one server, used by some workers, each with a connection object of its own."""

    def __init__(
        self, runner: asyncio.Runner, server: Server, queues: Sequence[str], workers: Sequence[str]
    ) -> None:
        """Empties the server."""
        self._runner = runner
        # A client that hears nothing for five seconds would send again what the server may have carried out.
        self.raw = redis.Redis(unix_socket_path=str(server.unix_path), socket_timeout=PATIENCE)
        self.raw.flushdb()
        self._client = redis.asyncio.Redis(unix_socket_path=str(server.unix_path), socket_timeout=PATIENCE)
        self.clock = FrozenClock(self._client)
        self.models = {name: QueueModel(name, BEGIN_MS) for name in queues}
        self.pushed = dict.fromkeys(queues, 0)
        self._servers = {worker: claimq.connect(client=self.clock) for worker in workers}
        self.touched: set[str] = set()
        self._adopted: list[tuple[str, ModelItem]] = []
        self._seqs = dict.fromkeys(queues, 0)
        self.report_time()

    def close(self) -> None:
        """Closes the connections."""
        self.run(self._client.aclose())
        self.raw.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it, and what it leaves to do in the background. Runner.run would also replace the handler of SIGINT."""
        return self._runner.get_loop().run_until_complete(_with_what_follows(work))

    def report_time(self) -> None:
        """The server's clocks follow the models'."""
        self.clock.now = {name: model.now for name, model in self.models.items()}

    def queue(self, name: str, worker: str = "w1") -> claimq.ReliableQueue:
        """The queue as one of the workers has it."""
        self.touched.add(name)
        return self._servers[worker].queue(name, worker=worker)

    def check(self) -> None:
        """Every key of the queues that were touched is as the model says, and the keys fit together."""
        assert self.clock.differing == []
        for name in sorted(self.touched):
            model, stored = self.models[name], read_queue(self.raw, name)
            for owner, item in self._adopted:
                if owner == name:
                    item.id = next(one.id for one in stored.lists["-"] if one.priority == "normal")
                    assert re.fullmatch(r"bare-a\d+", item.id)
            grace = (stored.number("grace_from"), stored.number("grace_until"))
            assert grace == (model.grace_from, model.grace_until)
            found = [*inconsistencies(stored), *differences(model, stored, self.pushed[name])]
            assert found == [], "\n".join(found)
            assert stored.number("seq") >= self._seqs[name]
            self._seqs[name] = stored.number("seq")
            bare = any(item.is_bare for item in model.lists.get("-", ()))
            is_awake = (
                stored.wake == 1 or bare or model.held_back.has_limits or model.held_back.pauses.has_clients
            )
            assert is_awake or not model.waiting(), "work waits, and no claim will be woken"
            self._check_snapshot(name, stored.stats.get("limits", ""))
        self.touched.clear()
        self._adopted.clear()

    def _check_snapshot(self, name: str, limits: str) -> None:
        model = self.models[name]
        seen = self.run(self.queue(name).snapshot())
        assert seen.lengths == model.lengths()
        assert seen.ages == model.ages()
        assert seen.now == model.now / 1000
        assert seen.paused == model.is_paused
        pauses = {one.client or "": (one.until, one.by_app, one.closed_from) for one in seen.pauses}
        assert pauses == model.held_back.pauses.seen(model.now)
        room = model.held_back.startable(model.now, [held.item for held in model.busy.values()], limits)
        assert (seen.limits is None) == (room is None)
        if room and seen.limits:
            least = 0 if model.held_back.has_client_limits(model.now) else room[0]
            assert least <= seen.limits.startable <= room[1], (room, seen.limits)
        dues = [max(due - model.now, 0) / 1000 for due, _ in model.delayed]
        assert seen.next_due_in == (min(dues) if dues else None)

    def enqueue(self, items: dict[str, list[New]]) -> None:
        """To one queue, or in one step to several."""
        new = {name: [_new_item(one) for one in ones] for name, ones in items.items()}
        wanted = {n: [_order(one, self.models[n], one[1] or "") for one in ones] for n, ones in items.items()}
        expected = refusals(self.models, wanted)
        self.touched.update(items)
        refused, done = None, dict[str, Enqueued]()
        try:
            if len(new) == 1:
                (name,) = new
                done = {name: self.run(self.queue(name).enqueue_many(new[name]))}
            else:
                done = self.run(self._servers["w1"].enqueue(new))
        except (ItemRefused, QueueFull) as error:
            refused = type(error)
        assert refused in expected if expected else refused is None
        for name, enqueued in done.items():
            model = self.models[name]
            ids = enqueued.ids
            orders = [_order(one, model, one_id) for one, one_id in zip(items[name], ids, strict=True)]
            assert list(enqueued.duplicates) == model.enqueue(orders)
            assert enqueued.length == model.waiting()

    def push_bare(self, name: str, payload: bytes) -> None:
        """Another Redis client's LPUSH."""
        self.raw.lpush(f"cq:{{{name}}}:main", payload)
        self.models[name].push_bare(payload)
        self.pushed[name] += 1
        self.touched.add(name)

    def claim(self, name: str, worker: str, count: int) -> None:
        """At once."""
        claims = self.run(self.queue(name, worker).claim(count, wait=0))
        nonce = claims[0].token[-8:] if claims else ""
        expected = self.models[name].claim(worker, count, nonce, clients=_clients_of(claims))
        self.compare_claims(name, worker, claims, expected)

    def done_and_claim(self, name: str, worker: str, tokens: list[str], count: int) -> None:
        """Both in one step."""
        operation = next_claims(self.queue(name, worker))
        outcomes, claims = self.run(operation.done_and_claim(tokens, count))
        assert [outcome.verdict for outcome in outcomes] == self.models[name].done(tokens)
        nonce = claims[0].token[-8:] if claims else ""
        expected = self.models[name].claim(worker, count, nonce, once=True, clients=_clients_of(claims))
        self.compare_claims(name, worker, claims, expected)

    def compare_claims(
        self, name: str, worker: str, claims: list[Claim], expected: list[tuple[str, ModelItem]]
    ) -> None:
        """What the server handed out is what the model did."""
        ends = {token: held.lease_end for token, held in self.models[name].busy.items()}
        assert [(claim.token, claim.item.payload) for claim in claims] == [
            (token, item.payload) for token, item in expected
        ]
        for claim, (token, item) in zip(claims, expected, strict=True):
            assert claim.item.id == (item.id or f"bare-{number_of(token)}")
            assert claim.lease_until == ends.get(token, 0) / 1000 or token not in ends
            assert claim.worker == worker
            assert (claim.item.headers, claim.item.priority) == (item.headers, item.priority)
            assert (claim.item.requeue_count, claim.item.crash_count, claim.item.interrupted_count) == (
                item.count("requeues"),
                item.count("crashes"),
                item.count("interrupts"),
            )

    def done(self, name: str, tokens: list[str]) -> None:
        """Without followers."""
        outcomes = self.run(self.queue(name).done(tokens))
        assert [outcome.verdict for outcome in outcomes] == self.models[name].done(tokens)

    def done_with(self, name: str, followers: list[tuple[str, dict[str, list[New]]]]) -> None:
        """Each token with what follows from it. One call adds what follows from the claims of a worker together."""
        model = self.models[name]
        orders: dict[str, list[Order]] = {}
        first = dict(reversed(followers))
        workers = list(dict.fromkeys(worker_of(token) for token, _ in followers))
        for token in sorted(dict(followers), key=lambda token: workers.index(worker_of(token))):
            if token in model.busy:
                for other, ones in first[token].items():
                    wanted = [_order(one, self.models[other], one[1] or "") for one in ones]
                    orders.setdefault(other, []).extend(wanted)
                    self.touched.add(other)
        expected = refused_items(self.models, orders)
        pairs = [
            claimq.Done(token, {other: [_new_item(one) for one in ones] for other, ones in items.items()})
            for token, items in followers
        ]
        if expected:
            with pytest.raises(tuple(expected)):
                self.run(self.queue(name).done(pairs))
            return
        outcomes = self.run(self.queue(name).done(pairs))
        assert [outcome.verdict for outcome in outcomes] == model.done([token for token, _ in followers])
        for other, wanted in orders.items():
            self.models[other].enqueue(wanted)

    def give_back(self, name: str, tokens: list[str], kind: str, error: str, delay: float | None) -> None:
        """fail, permanent, drop, requeue, later (postpone; queue or client, which it closes), unclaim (interrupt) or
        crash."""
        queue = self.queue(name)
        calls = {
            "fail": lambda: queue.fail(tokens, error),
            "permanent": lambda: queue.fail(tokens, error, permanent=True),
            "drop": lambda: queue.drop(tokens, error),
            "requeue": lambda: queue.requeue(tokens, delay=delay),
            "postpone": lambda: queue.later(tokens, delay or 0),
            "queue": lambda: queue.later(tokens, delay or 0, close="queue"),
            "client": lambda: queue.later(tokens, delay or 0, close="client"),
            "interrupt": lambda: queue.unclaim(tokens),
            "crash": lambda: queue.crash(tokens, error),
        }
        outcomes = self.run(calls[kind]())
        said = error if kind in {"fail", "permanent", "drop", "crash"} else ""
        takes_delay = kind in ("requeue", "postpone", *CLOSINGS)
        delay_ms = round(delay * 1000) if delay is not None and takes_delay else None
        model = self.models[name]
        if kind in CLOSINGS:
            ends = {model.busy[token].item.client for token in tokens if token in model.busy}
            for client in {"" for _ in ends} if kind == "queue" else ends - {"-"}:
                model.held_back.pauses.close(model.now, delay_ms or 0, client)
        expected = model.give_back(tokens, "postpone" if kind in CLOSINGS else kind, said, delay_ms)
        assert [(one.verdict, round((one.delay or 0) * 1000)) for one in outcomes] == expected

    def renew(self, name: str, tokens: list[str]) -> None:
        """Moves leases."""
        outcomes = self.run(self.queue(name).renew(tokens))
        assert [outcome.verdict for outcome in outcomes] == self.models[name].renew(tokens)

    def release(self, name: str, worker: str, reason: Reason) -> None:
        """A worker is known to be dead."""
        released = self.run(self.queue(name).release_worker(worker, reason, "gone"))
        expected = self.models[name].release(worker, reason.value, "gone")
        assert (released.requeued, released.delayed, released.failed, released.unclaimed) == tuple(
            expected[verdict] for verdict in ("requeued", "delayed", "failed", "unclaimed")
        )

    def reap(self, name: str, limit: int, *, lost: bool = False) -> None:
        """One sweep. `lost`: there may be something to repair."""
        reaped = self.run(self.queue(name).reap(limit))
        expired, due = self.models[name].reap(limit)
        assert [_row(outcome) for outcome in reaped.expired] == expired
        assert reaped.due == due
        assert lost or reaped.repaired == 0
        self.repair(name)

    def repair(self, name: str) -> None:
        """A call has ended that also repairs."""
        if (item := self.models[name].repair()) is not None:
            self._adopted.append((name, item))

    def outage(self, name: str, milliseconds: int) -> None:
        """No call reaches the queue for so long (over five seconds), then one does: holders have a grace now."""
        model = self.models[name]
        stats = f"cq:{{{name}}}:stats"
        self.clock.move(name, milliseconds, gap=True)
        self.run(internals(self.queue(name)).wake())
        seen = int(self.raw.hget(stats, "seen_at") or 0)
        assert milliseconds <= seen - model.now < milliseconds + 5000
        model.grace_from = model.now
        model.now, model.grace_until = seen, seen + min(round(model.policy.busy_expiry * 1000) // 3, 10000)
        self.repair(name)
        self.report_time()

    def lose_wake(self, name: str) -> None:
        """A worker takes the wake token and dies; the next sweep leaves another."""
        self.raw.delete(f"cq:{{{name}}}:wake")
        self.reap(name, 1000)
        stored = read_queue(self.raw, name)
        assert stored.wake == 1 or not self.models[name].waiting()

    def claim_woken(self, name: str, worker: str, count: int) -> None:
        """As after a wait: the token was taken, and the claim leaves one for the next worker if it leaves work."""
        if self.models[name].is_paused:
            return
        self.raw.delete(f"cq:{{{name}}}:wake")
        self.claim(name, worker, count)

    def lose(self, name: str, tokens: Sequence[str], part: str) -> None:
        """A key lost something: items without a lease get one by the reported command, leases without an item end."""
        model, base = self.models[name], f"cq:{{{name}}}:"
        live = [token for token in dict.fromkeys(tokens) if token in model.busy]
        self.reap(name, 1000)
        live = [token for token in live if token in model.busy]
        for token in live:
            if part == "lease":
                self.raw.zrem(base + "leases", token)
            else:
                self.raw.hdel(f"{base}busy:{model.busy[token].worker}", token)
        if part == "lease":
            self._mend_leases(name, live)
        elif live:
            self._mend_items(name, live)

    def _mend_leases(self, name: str, tokens: Sequence[str]) -> None:
        model = self.models[name]
        self.reap(name, 1000)
        internal = internals(self.queue(name))
        while damage := self.run(internal.damage()):
            assert {one.command[3].decode() for one in damage} <= set(tokens)
            for one in damage:
                self.raw.execute_command(*one.command)
        for token in tokens:
            model.busy[token].lease_end = model.now + round(model.policy.busy_expiry * 1000)

    def _mend_items(self, name: str, tokens: Sequence[str]) -> None:
        """What was in the lost fields is lost; the library must get rid of the leases that name nothing."""
        model = self.models[name]
        model.now = max(model.grace_until, *(model.busy[token].lease_end for token in tokens))
        model.now += 30_000  # until then their clients may be parked at a bound
        self.report_time()
        for token in tokens:
            del model.busy[token]
        self.pushed[name] -= len(tokens)
        self.reap(name, 1000, lost=True)

    def flush_client(self, name: str, client: str) -> None:
        """All waiting items of one client."""
        queue, model = self.queue(name), self.models[name]
        length = len(model.lists.get(client, ()))
        assert self.run(queue.client_length(client)) == length
        assert self.run(queue.has_client(client)) == bool(length)
        assert self.run(queue.flush_client(client)) == model.flush_client(client)

    def flush(self, name: str) -> None:
        """All items."""
        assert self.run(self.queue(name).flush()) == self.models[name].flush()

    def look(self, name: str, count: int, offset: int) -> None:
        """Pages, workers, and where items are. Nothing is damaged."""
        queue, model = self.queue(name), self.models[name]
        assert self.run(internals(queue).damage()) == []
        waiting = model.in_claim_order()
        peeked = self.run(queue.peek(count, offset=offset))
        assert [item.payload for item in peeked] == [
            item.payload for item in waiting[offset : offset + count]
        ]
        busy = self.run(queue.items("busy", 1000))
        assert {(one.name, one.worker, one.claimed_at, one.lease_until) for one in busy} == {
            (token, held.worker, held.claimed_at / 1000, held.lease_end / 1000)
            for token, held in model.busy.items()
        }
        failed = self.run(queue.items("failed", count, offset=offset))
        assert [one.name for one in failed] == model.failed_in_order()[offset : offset + count]
        delayed = self.run(queue.items("delayed", 1000))
        assert [one.item.id for one in delayed] == [item.id for _, item in model.delayed]
        workers = self.run(queue.workers())
        holding = [held.worker for held in model.busy.values()]
        assert {one.worker: (one.busy, one.last_seen_at) for one in workers} == {
            worker: (holding.count(worker), at / 1000) for worker, at in model.workers.items()
        }


async def _with_what_follows(work: Coroutine[Any, Any, T]) -> T:
    """The result, once what the call left for the background is done too."""
    result = await work
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    return result


def _clients_of(claims: Sequence[Claim]) -> list[str]:
    return [claim.item.client or "-" for claim in claims]


def _row(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.token, outcome.id or "", outcome.verdict.value


def _new_item(new: New) -> NewItem:
    payload, own_id, client, delay = new
    headers, limit, priority, cost = _options(payload)
    return NewItem(
        payload, own_id, client, delay, headers=headers, max_requeues=limit, priority=priority, cost=cost,
    )  # fmt: skip


def _order(new: New, model: QueueModel, item_id: str) -> Order:
    payload, own_id, client, delay = new
    due = model.now + round(delay * 1000) if delay else None
    return Order(payload, item_id, client or "-", due, own_id is not None, *_options(payload))


def _options(payload: bytes) -> tuple[dict[str, str], int | None, str, int]:
    """Headers for every other payload, a limit of requeues for every third, a priority for two of five, and a cost."""
    size = len(payload)
    priority = {3: "high", 4: "low"}.get(size % 5, "normal")
    return {"place": str(size)} if size % 2 else {}, 1 if size % 3 == 2 else None, priority, 1 + size // 5
