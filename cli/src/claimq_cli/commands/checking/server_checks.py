"""The checks of `claimq doctor` on a server and on a queue there. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from claimq.internals.operations import Damage
from claimq.model import ServerReport, ServerWarning, Snapshot, State, WorkerInfo
from claimq_admin.escaping import safe
from claimq_admin.reads.queue_reads import live_workers
from claimq_admin.selection.item_filter import FailureGroup
from claimq_admin.text import age, count
from claimq_cli.commands.checking.diagnosis import Check, Commands, ok, problem, warning

CLOCK_SECONDS = 5.0
"""A larger difference between the clocks is a warning."""
MEMORY_SHARE = 0.8
"""A larger used share of maxmemory is a warning."""
LATE_SECONDS = 300.0
"""An item that has waited longer in main is a warning."""
START_SECONDS = 60.0
"""For so long, items that wait without a worker are only a warning: workers may be starting."""
_SHOWN = 3

_STOPS = {
    "ClusterNotDeclared",
    "EvictionPolicy",
    "Full",
    "IsReplica",
    "ServerTooOld",
    "AppendOnlyFailing",
    "FsyncedRefused",
}
"""Warnings about the server with which queues lose items in normal operation, or stop."""
_SETTING = "in the server's configuration; until its next restart also: "
_FIXES = {
    "EvictionPolicy": f"maxmemory-policy noeviction {_SETTING}CONFIG SET maxmemory-policy noeviction",
    "NoAppendOnly": f"appendonly yes and appendfsync always {_SETTING}"
    "CONFIG SET appendonly yes, CONFIG SET appendfsync always",
    "FsyncNotAlways": f"appendfsync always {_SETTING}CONFIG SET appendfsync always",
    "FsyncPauses": f"no-appendfsync-on-rewrite no {_SETTING}CONFIG SET no-appendfsync-on-rewrite no",
    "AsynchronousReplication": "spec.durability or the policy's durability, see docs/operations.md",
    "SettingsHidden": "run `claimq check` as an administrator, and declare the value in spec.redis.appendfsync",
    "ClusterNotDeclared": "redis+cluster://host:port as the address, or spec.redis.cluster: true",
    "DeclarationWrong": "write the server's value into spec.redis.appendfsync",
    "OtherServer": "use a server of the table in docs/servers.md",
    "SnapshotFailing": "free the server's disk; its log has the cause",
}


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """A queue as the checks see it. ``groups``: the reasons of the newest ``grouped`` failed items."""

    snapshot: Snapshot
    workers: Sequence[WorkerInfo]
    busy_expiry: float
    groups: Sequence[FailureGroup] = ()
    grouped: int = 0


def report_checks(subject: str, report: ServerReport) -> list[Check]:
    """The server's version, and its unsafe settings as `claimq check` reports them."""
    checks = [ok(subject, f"reachable: {report.flavour} {report.version}, {report.mode}")]
    if not report.warnings:
        return [*checks, ok(f"settings of the {subject}", "no unsafe settings")]
    return [*checks, *(_setting_check(subject, setting) for setting in report.warnings)]


def _setting_check(subject: str, setting: ServerWarning) -> Check:
    make = problem if setting.code in _STOPS else warning
    return make(
        f"settings of the {subject}",
        f"{setting.code}: {setting.message}",
        _FIXES.get(setting.code, "as the message says"),
    )


def clock_check(subject: str, server_now: float, before: float, after: float) -> Check:
    """The server's clock, as queues use it, against this machine's, which was read before and after the call."""
    check = f"clock of the {subject}"
    off = max(before - server_now, server_now - after, 0.0)
    if off <= CLOCK_SECONDS:
        return ok(check, f"differs by less than {age(CLOCK_SECONDS)} from this machine's")
    way = "ahead of" if server_now > after else "behind"
    return warning(
        check,
        f"{age(off)} {way} this machine's; times and ages that commands show are the server's",
        "synchronize both clocks with NTP (`timedatectl`); queues follow a clock that was set back slowly",
    )


def memory_check(subject: str, share: float | None) -> Check:
    """The used share of the server's maxmemory; None without a limit."""
    check = f"memory of the {subject}"
    if share is None:
        return ok(check, "the server has no maxmemory")
    text = f"{share * 100:.0f}% of maxmemory used"
    if share <= MEMORY_SHARE:
        return ok(check, text)
    fix = "remove failed items (`claimq failed remove`), add workers, or raise maxmemory"
    return warning(check, f"{text}; at 100% no items can be enqueued", fix)


def queue_checks(name: str, queue: ObservedQueue, commands: Commands) -> list[Check]:
    """Whether items of a queue are claimed and done."""
    return [
        _claims_check(name, queue, commands),
        _oldest_check(name, queue.snapshot, commands),
        _failed_check(name, queue, commands),
        _lease_check(name, queue, commands),
    ]


def damage_checks(name: str, damages: Sequence[Damage]) -> list[Check]:
    """The damage to a queue's keys, each with the command that corrects it."""
    check = f"queue {name}: keys"
    if not damages:
        return [ok(check, "no damage by other clients")]
    return [
        problem(
            check,
            f"{_text(damage.key)} {_text(damage.message)}",
            f"redis-cli {shlex.join(map(_text, damage.command))}",
        )
        for damage in damages
    ]


def _text(word: bytes) -> str:
    return safe(word.decode("utf-8", "backslashreplace"))


def _claims_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    snapshot, check = queue.snapshot, f"queue {name}: claims"
    waiting, live = snapshot.lengths[State.MAIN], live_workers([*queue.workers], snapshot.now)
    if snapshot.paused:
        make = problem if waiting else warning
        text = f"the queue is paused or suspended, so no item is claimed; {count(waiting)} in main"
        suspend = "; or set spec.suspend to false" if commands.kubectl else ""
        return make(check, text, f"{commands.claimq} resume {name}{suspend}")
    if not waiting or live:
        return ok(check, f"not paused, {count(waiting)} in main, {count(len(live), 'live worker')}")
    late = (snapshot.ages[State.MAIN] or 0.0) > START_SECONDS
    make = problem if late else warning
    start = f"{commands.claimq} worker {name} -- COMMAND, or `claimq up`"
    if commands.kubectl:
        start = f"{commands.claimq} why {name}; {commands.kubectl} describe rq {name}"
    return make(check, f"{count(waiting)} in main and no live worker", start)


def _oldest_check(name: str, snapshot: Snapshot, commands: Commands) -> Check:
    check, oldest = f"queue {name}: oldest item", snapshot.ages[State.MAIN]
    if oldest is None or oldest <= LATE_SECONDS:
        return ok(check, "no item waits" if oldest is None else f"has waited {age(oldest)} in main")
    fix = f"{commands.claimq} why {name}; more workers, or faster ones"
    return warning(check, f"has waited {age(oldest)} in main", fix)


def _failed_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    check, total = f"queue {name}: failed items", queue.snapshot.lengths[State.FAILED]
    if not total:
        return ok(check, "none")
    reasons = ", ".join(f'{group.count:,} "{group.reason}"' for group in queue.groups[:_SHOWN])
    more = f" and {count(len(queue.groups) - _SHOWN, 'other reason')}" if len(queue.groups) > _SHOWN else ""
    newest = f" (of the newest {queue.grouped:,})" if queue.grouped < total else ""
    fix = f"{commands.claimq} failed list {name}; "
    fix += f"once the cause is gone: {commands.claimq} failed requeue {name} --all"
    return warning(check, f"{count(total)}: {reasons}{more}{newest}", fix)


def _lease_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    """Workers that hold claims and have not renewed them for longer than a lease lasts."""
    check, now = f"queue {name}: leases", queue.snapshot.now
    silent = [
        worker for worker in queue.workers if worker.busy and now - worker.last_seen_at > queue.busy_expiry
    ]
    if not silent:
        return ok(check, "all workers with claims renew them")
    first = silent[0]
    holder = f"{first.worker} with {count(first.busy)}, last seen {age(now - first.last_seen_at)} ago"
    text = f"{count(len(silent), 'worker')} not seen within busyExpiry ({age(queue.busy_expiry)}): {holder}"
    release = f"{commands.claimq} release {name} {shlex.quote(first.worker)}"
    return warning(
        check, text, f"the next claim of a live worker returns the items; if the worker is dead: {release}"
    )
