"""A queue as plain Python: what every operation is to do, by the documents alone. One instant at a time, no server."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from claimq.policy import Match
from claimq.tokens import make_token
from testkit.checkers import model_item
from testkit.checkers.model_item import COUNTED, Held, ModelItem, Order, decide, levels_of, numbers
from testkit.checkers.model_turns import Turns

SEEN_EVERY_MS = 5000
FORGET_WORKERS_MS = 3600000


class QueueModel(Turns):
    """Instants are ms. What the documents leave open (the id of a payload that a repair adopts) is the server's."""

    def __init__(self, name: str, now: int) -> None:
        """An empty queue."""
        super().__init__(now)
        self.name, self.grace_until, self.grace_from = name, 0, 0
        self.counts: Counter[str] = Counter()
        self.batch = self.number = 0
        self.workers: dict[str, int] = {}
        self.all_tokens: list[str] = []
        self.failed: dict[str, tuple[int, ModelItem]] = {}
        self.ids: dict[str, int] = {}
        self.removed: list[tuple[str, str]] = []

    # Where items are.
    def lengths(self) -> dict[str, int]:
        """State to number of items."""
        return {
            "main": self.waiting(), "busy": len(self.busy), "delayed": len(self.delayed), "failed": len(self.failed),
        }  # fmt: skip

    def ages(self) -> dict[str, float | None]:
        """State to age in seconds, as the documents define it."""
        firsts = [level[0] for items in self.lists.values() for level in levels_of(items)]
        heads = [first.at for first in firsts if not first.is_bare]
        dues = [due for due, _ in self.delayed]
        claimed = [held.claimed_at for held in self.busy.values()]
        since = {"main": heads, "busy": claimed, "failed": [at for at, _ in self.failed.values()]}
        ages = {state: (self.now - min(at)) / 1000 if at else None for state, at in since.items()}
        return ages | {"delayed": max(self.now - min(dues), 0) / 1000 if dues else None}

    def _tail(self, item: ModelItem) -> None:
        items = self.lists.setdefault(item.client, deque())
        if not items and item.client != "-":
            self.ring.append(item.client)
        item.place = None
        items.insert(sum(one.rank <= item.rank for one in items), item)

    def _head(self, items: Sequence[ModelItem]) -> None:
        """A client's items that were given back stand before its others, in the order of their first claims since they
        entered the tail, whatever is given back first; a client without items has the next turn."""
        for item in items:
            item.place = item.place or item.number
        for client in reversed(dict.fromkeys(item.client for item in items)):
            waiting = self.lists.setdefault(client, deque())
            if not waiting and client != "-":
                self.ring.insert(0, client)
            waiting.extend(item for item in items if item.client == client)
            self.lists[client] = deque(sorted(waiting, key=lambda item: item.standing))

    # The producer's side.
    def known(self, orders: Sequence[Order]) -> list[bool]:
        """For each order whether its id is known already, here or earlier in the call."""
        seen: set[str] = set()
        answers: list[bool] = []
        for order in orders:
            is_known = order.own and (order.id in seen or self.ids.get(order.id, 0) > self.now)
            if order.own:
                seen.add(order.id)
            answers.append(is_known)
        return answers

    def enqueue(self, orders: Sequence[Order]) -> list[str]:
        """Stores what is not known; returns the ids that are."""
        self.batch += 1
        known = self.known(orders)
        for order, is_known in zip(orders, known, strict=True):
            if is_known:
                continue
            item = ModelItem(
                order.payload, order.id, order.client, self.now,
                headers=order.headers, max_requeues=order.max_requeues,
                priority=order.priority, cost=order.cost, batch=self.batch,
            )  # fmt: skip
            if order.own:
                self.ids[order.id] = self.now + round(self.policy.id_window * 1000)
            if order.due is None:
                self._tail(item)
            else:
                self._delay(order.due, item)
            self.counts["enqueued"] += 1
        return [order.id for order, is_known in zip(orders, known, strict=True) if is_known]

    def push_bare(self, payload: bytes) -> None:
        """Another client's LPUSH."""
        self._tail(ModelItem(payload, is_bare=True))

    def _delay(self, due: int, item: ModelItem) -> None:
        item.batch = self.batch
        self.delayed.append((due, item))
        self.delayed.sort(key=lambda entry: entry[0])

    # The worker's side.
    def claim(
        self, worker: str, count: int, nonce: str, *,
        once: bool = False, chosen: ModelItem | None = None, clients: Sequence[str] = (),
    ) -> list[tuple[str, ModelItem]]:  # fmt: skip
        """Tokens with their items; what is overdue is reaped on the way, and then claimed unless ``once``. ``clients``:
        of the items that the server let start, where the model leaves it a choice."""
        while True:
            overdue = any(due <= self.now for due, _ in self.delayed) or bool(self._expired())
            got = self._take_out(chosen) if chosen else self._take_in_turn(count, clients)
            if self.now - self.workers.get(worker, -SEEN_EVERY_MS) >= SEEN_EVERY_MS:
                self.workers[worker] = self.now
            is_short = once or self.is_paused or len(got) >= count or any(item.comes_alone for item in got)
            claims = [self._hold(worker, item, nonce) for item in got]
            self.held_back.started(self.now, got)
            assert is_short or not self.has_startable(got), "items may start, and did not"
            reaped = self.reap(100) if overdue else (list[tuple[str, str, str]](), 0)
            if claims or once or not any(reaped):
                return claims

    def _hold(self, worker: str, item: ModelItem, nonce: str) -> tuple[str, ModelItem]:
        self.counts["claimed"] += 1
        self.number = number = max(self.number + 1, self.now * 1000)
        if item.is_bare:
            item.adopt(f"bare-{number}", self.now)
            self.counts["adopted"] += 1
        item.number = number
        token = make_token(worker, number, nonce)
        self.busy[token] = Held(item, worker, self.now, self.now + round(self.policy.busy_expiry * 1000))
        self.all_tokens.append(token)
        return token, item

    def done(self, tokens: Iterable[str]) -> list[str]:
        """Ends claims."""
        verdicts = ["done" if self.busy.pop(token, None) else "lost" for token in tokens]
        self.counts["done"] += verdicts.count("done")
        return verdicts

    def renew(self, tokens: Iterable[str]) -> list[str]:
        """Moves leases. A token that comes twice in a call is lost the second time."""
        verdicts: list[str] = []
        seen: set[str] = set()
        for token in tokens:
            held = self.busy.get(token)
            if held:
                held.lease_end = self.now + round(self.policy.busy_expiry * 1000)
                self.workers[held.worker] = self.now
            verdicts.append("renewed" if held and token not in seen else "lost")
            seen.add(token)
        return verdicts

    def give_back(
        self, tokens: Sequence[str], kind: str, error: str = "", delay_ms: int | None = None
    ) -> list[tuple[str, int]]:
        """Verdicts and delays, in the order of the tokens; they are handled in the order of claiming."""
        self.batch += 1
        verdicts: dict[str, tuple[str, int]] = dict.fromkeys(tokens, ("lost", 0))
        held = [token for token in dict.fromkeys(tokens) if token in self.busy]
        live = sorted(held, key=lambda token: numbers([token]))
        items = [self.busy[token].item for token in live]
        verdicts.update(self._settle(live, kind, error, delay_ms))
        if kind == "interrupt" and not error:
            self.held_back.given_back(self.now, items)
        seen: set[str] = set()
        answers: list[tuple[str, int]] = []
        for token in tokens:
            answers.append(("lost", 0) if token in seen else verdicts[token])
            seen.add(token)
        return answers

    def _settle(
        self, tokens: Sequence[str], kind: str, error: str, delay_ms: int | None = None
    ) -> dict[str, tuple[str, int]]:
        verdicts: dict[str, tuple[str, int]] = {}
        heads: list[ModelItem] = []
        for token in tokens:
            held = self.busy.pop(token)
            item = held.item
            verdict, delay = decide(item, self.policy, kind, error or held.expiry_error(kind), delay_ms)
            verdicts[token] = (verdict, delay)
            self.counts[verdict] += 1
            if kind in COUNTED:
                self.counts[COUNTED[kind]] += 1
            self.counts["postponed"] += kind == "postpone" and verdict != "failed"
            if verdict == "unclaimed":
                heads.append(item)
            elif verdict == "requeued":
                item.wait_again(self.now)
                self._tail(item)
            elif verdict == "delayed":
                self._delay(self.now + delay, item)
            elif verdict == "failed":
                self._give_up(item)
            elif verdict == "dropped":
                self.removed.append(("on_failure" if kind == "drop" else "on_expiry", item.id))
        self._head(heads)
        return verdicts

    # Failed items.
    def _give_up(self, item: ModelItem) -> None:
        name, again = item.id, 1
        while name in self.failed:
            again += 1
            name = f"{item.id}#{again}"
        self.failed[name] = (self.now, item)
        most = self.policy.failed.max_items
        over = len(self.failed) - most if most is not None else 0
        self._remove(self.failed_in_order()[: min(max(over, 0), 10)], "max_items")

    def failed_in_order(self) -> list[str]:
        """Names in failed, oldest failure first."""
        return sorted(self.failed, key=lambda name: (self.failed[name][0], name.encode()))

    def _remove(self, names: Sequence[str], reason: str = "") -> list[str]:
        if reason:
            self.removed += [(reason, self.failed[name][1].id) for name in names]
        for name in names:
            del self.failed[name]
        self.counts["failed_removed"] += len(names)
        return list(names)

    def remove_failed(
        self,
        min_age: int | None = None,
        least: int | None = None,
        most: int | None = None,
        *,
        either: bool = False,
        reason: str = "",
    ) -> list[str]:
        """The names of what is removed. `either`: one of two filters is enough. `reason`: as it is noted."""
        chosen = [
            name for name in self.failed_in_order() if self._passes(name, min_age, least, either=either)
        ]
        return self._remove(chosen[:most], reason)

    def _passes(self, name: str, min_age: int | None, least: int | None, *, either: bool) -> bool:
        at, item = self.failed[name]
        passed: list[bool] = []
        if min_age is not None:
            passed.append(at <= self.now - min_age)
        if least is not None:
            passed.append(item.given_up >= least)
        return (any(passed) if either else all(passed)) or not passed

    def remove_failed_item(self, name: str) -> list[str]:
        """The same for one name."""
        return self._remove([name] if name in self.failed else [])

    def requeue_failed(self, min_delay: int = 0, limit: int | None = None, most: int | None = None) -> int:
        """How many are sent back."""
        old = [name for name in self.failed_in_order() if self.failed[name][0] <= self.now - min_delay]
        chosen = [name for name in old if limit is None or self.failed[name][1].given_up <= limit]
        return sum(map(self.requeue_failed_item, chosen[:most]))

    def requeue_failed_item(self, name: str) -> bool:
        """Whether there was one of that name."""
        if name not in self.failed:
            return False
        _, item = self.failed.pop(name)
        item.forgive()
        item.wait_again(self.now)
        self._tail(item)
        self.counts["failed_requeued"] += 1
        return True

    def apply_failed_policy(self, limit: int) -> tuple[int, int]:
        """(requeued, removed) of one pass."""
        failed = self.policy.failed
        removed = requeued = 0
        if failed.remove_min_age is not None or failed.remove_min_given_up_count is not None:
            age = None if failed.remove_min_age is None else round(failed.remove_min_age * 1000)
            either = failed.remove_match is Match.EITHER
            least = failed.remove_min_given_up_count
            removed += len(self.remove_failed(age, least, limit, either=either, reason="policy"))
        if failed.max_items is not None:
            over = max(len(self.failed) - failed.max_items, 0)
            removed += len(self.remove_failed(most=min(over, limit), reason="max_items"))
        if failed.requeue_min_age is not None:
            age = round(failed.requeue_min_age * 1000)
            requeued = self.requeue_failed(age, failed.requeue_max_given_up_count, limit)
        return requeued, removed

    # Keeping order.
    def _expired(self) -> list[str]:
        by = self.now if self.now >= self.grace_until else self.grace_from
        over = [token for token, held in self.busy.items() if held.lease_end <= by]
        return sorted(over, key=lambda token: (self.busy[token].lease_end, token.encode()))

    def reap(self, limit: int) -> tuple[list[tuple[str, str, str]], int]:
        """(token, id, verdict) of expired claims, and how many delayed items entered main."""
        self.batch += 1
        expired = sorted(self._expired()[:limit], key=lambda token: numbers([token]))
        due = [entry for entry in self.delayed if entry[0] <= self.now][: limit - len(expired)]
        items = {token: self.busy[token].item for token in expired}
        verdicts = self._settle(expired, "expired", "")
        for entry in due:
            self.delayed.remove(entry)
            entry[1].wait_again(self.now)
            self._tail(entry[1])
        self.counts.update({"expired": len(expired), "due": len(due)})
        return [(token, items[token].id, verdicts[token][0]) for token in expired], len(due)

    def repair(self) -> ModelItem | None:
        """Forgets quiet workers; returns the bare payload that is adopted, whose id the server chooses."""
        for worker in [name for name, at in self.workers.items() if at <= self.now - FORGET_WORKERS_MS]:
            if all(held.worker != worker for held in self.busy.values()):
                del self.workers[worker]
        self.counts["adopted"] += 0 if self.waiting() else model_item.uncounted(self.counts, self.lengths())
        first = next((item for item in self.lists.get("-", ()) if item.priority == "normal"), None)
        if first is None or not first.is_bare:
            return None
        first.adopt("", self.now)
        self.counts["adopted"] += 1
        return first

    def release(self, worker: str, kind: str, error: str) -> Counter[str]:
        """Verdicts of all that a dead worker held."""
        self.batch += 1
        held = sorted([t for t, one in self.busy.items() if one.worker == worker], key=lambda t: numbers([t]))
        return Counter(verdict for verdict, _ in self._settle(held, kind, error).values())

    def flush_client(self, client: str) -> int:
        """How many of its items waited."""
        count = len(self.lists.pop(client, ()))
        self._forget(client)
        self.counts["flushed"] += count
        return count

    def flush(self) -> dict[str, int]:
        """How many items there were in each state."""
        gone = self.lengths()
        self.counts.update(adopted=model_item.uncounted(self.counts, gone), flushed=sum(gone.values()))
        self.ring, self.lists, self.delayed, self.busy, self.failed, self.ids = [], {}, [], {}, {}, {}
        self.removed = []
        self.passed.clear()
        return gone
