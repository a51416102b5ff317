"""The checks of `claimq doctor` on a server and on a queue there. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from claimq.internals.operations import Damage
from claimq.model import ServerReport, ServerWarning, Snapshot, State, WorkerInfo
from claimq.policy import Policy
from claimq.waiting.texts import pause_text
from claimq_admin.escaping import safe
from claimq_admin.reads.queue_reads import live_workers
from claimq_admin.text import age, count, reasons_text
from claimq_cli.commands.checking.diagnosis import Check, Commands, ok, problem, stands_still, warning
from claimq_control.decide.books import unaccounted
from claimq_control.decide.conditions.full import NEAR
from claimq_control.decide.neighbours_note import neighbours_note
from claimq_control.decide.pauses import pause_note
from claimq_control.decide.standstill import held_back_note, long_item, standstill
from claimq_process.size import format_size

CLOCK_SECONDS = 5.0
"""A larger difference between the clocks is a warning."""
MEMORY_SHARE = 0.8
"""A larger used share of maxmemory is a warning."""
LATE_SECONDS = 300.0
"""An item that has waited longer in main is a warning."""
START_SECONDS = 60.0
"""For so long, items that wait without a worker are only a warning: workers may be starting."""

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
    "SettingsHidden": "run `claimq doctor` as an administrator, and declare the value in spec.redis.appendfsync",
    "ClusterNotDeclared": "redis+cluster://host:port as the address, or spec.redis.cluster: true",
    "DeclarationWrong": "write the server's value into spec.redis.appendfsync",
    "OtherServer": "use a server of the table in docs/servers.md",
    "SnapshotFailing": "free the server's disk; its log has the cause",
}


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """A queue as the checks see it. ``reasons``: of its failed items, with their counts; ``memory``: bytes that the
    server may use, 0 without a limit; ``unready``: why no worker of local mode is ready, else empty;
    ``may_hang``: the sentence of the queue's condition about a long item; None: the queue has no conditions."""

    snapshot: Snapshot
    workers: Sequence[WorkerInfo]
    policy: Policy
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    memory: int = 0
    unready: str = ""
    may_hang: str | None = None


def report_checks(subject: str, report: ServerReport) -> list[Check]:
    """The server's version, and its unsafe settings."""
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
        _books_check(name, queue.snapshot),
        _bound_check(name, queue, commands),
        _busy_check(name, queue, commands),
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
        why = pause_text(snapshot.pause) if snapshot.pause else "suspended"
        text = f"the queue is {why}, so no item is claimed; {count(waiting)} in main"
        may_be_suspended = commands.kubectl and not snapshot.pause
        suspend = "; or set spec.suspend to false" if may_be_suspended else ""
        return make(check, text, f"{commands.claimq} resume {name}{suspend}")
    if not queue.unready and (live or not waiting):
        if note := pause_note(snapshot, f"{commands.claimq} resume {name}"):
            return warning(check, *note.split("; to end it now: ", 1))
        return ok(check, f"not paused, {count(waiting)} in main, {count(len(live), 'live worker')}")
    late = (snapshot.ages[State.MAIN] or 0.0) > START_SECONDS
    make = problem if late else warning
    start = f"{commands.claimq} worker {name} -- COMMAND, or a program of yours that consumes it"
    if commands.has_scaling:
        start = f"{commands.claimq} why {name}; the log of the app in .claimq/logs"
    if commands.kubectl:
        start = f"{commands.claimq} why {name}; {commands.kubectl} describe rq {name}"
    cause = f"; {queue.unready}" if queue.unready else " and no live worker"
    return make(check, f"{count(waiting)} in main{cause}", start)


def _oldest_check(name: str, snapshot: Snapshot, commands: Commands) -> Check:
    check, oldest = f"queue {name}: oldest item", snapshot.ages[State.MAIN]
    if sentence := standstill(snapshot, f"{commands.claimq} drain {name}"):
        return stands_still(check, name, sentence)
    if oldest is None or oldest <= LATE_SECONDS or not snapshot.claimable:
        return ok(check, "no item waits" if oldest is None else f"has waited {age(oldest)} in main")
    if held := held_back_note(snapshot):
        return warning(check, f"has waited {age(oldest)} in main: {held}", f"{commands.claimq} limits {name}")
    if note := neighbours_note(snapshot, f"{commands.claimq} limits {name}"):
        return warning(check, *note.split("; ", 1))
    fix = f"{commands.claimq} why {name}; more workers, or faster ones"
    return warning(check, f"has waited {age(oldest)} in main", fix)


def _busy_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    """The condition knows whether ``processingTimeout`` ends a long item, so it is asked where there is one."""
    snapshot, check = queue.snapshot, f"queue {name}: items in progress"
    drain = f"{commands.claimq} drain {name}"
    held_for = snapshot.ages[State.BUSY]
    if held_for is None:
        return ok(check, "none")
    sentence = long_item(snapshot, drain) if queue.may_hang is None else queue.may_hang
    if not sentence or standstill(snapshot, drain):
        return ok(check, f"the first was claimed {age(held_for)} ago")
    what, _, fix = sentence.partition("; ")
    return stands_still(check, name, f"{what} ({age(held_for)}); {fix}", warning)


def _bound_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    check, lengths = f"queue {name}: bound", queue.snapshot.lengths
    command, bound = f"{commands.claimq} policy {name} max_waiting_", queue.policy.max_waiting
    waiting = {
        "items": (lengths[State.MAIN] + lengths[State.DELAYED], bound.items),
        "bytes": (queue.snapshot.waiting_bytes or 0, bound.bytes),
    }
    parts = [f"{now:,} of at most {most:,} {unit} wait" for unit, (now, most) in waiting.items() if most]
    if not parts:
        size = format_size(max(1, (queue.memory or 2**28) // 4 >> 20) << 20)
        server = f"the server, which has {format_size(queue.memory)}" if queue.memory else "the server"
        return ok(check, f"none; to keep producers from filling {server}: {command}bytes={size}")
    for unit, (now, most) in waiting.items():
        if most and now >= NEAR * most:
            higher = format_size(2 * most) if unit == "bytes" else 2 * most
            fix = (
                f"{commands.claimq} clients {name}; more workers, or a higher bound: {command}{unit}={higher}"
            )
            return warning(check, f"{', '.join(parts)}, so new ones are refused", fix)
    return ok(check, ", ".join(parts))


def _failed_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    check, total = f"queue {name}: failed items", queue.snapshot.lengths[State.FAILED]
    if not total:
        return ok(check, "none")
    fix = f"{commands.claimq} items {name} failed; "
    fix += f"once the cause is gone: {commands.claimq} failed requeue {name} --all"
    text, most = f"{count(total)}: {reasons_text(queue.reasons)}", queue.policy.failed.max_items
    if most is not None and total >= most:
        text += f"; no more are kept (failed_max_items={most}), so each failure removes the oldest"
        fix += f"; those that are removed: {commands.claimq} failed removed {name}"
    return warning(check, text, fix)


def _books_check(name: str, snapshot: Snapshot) -> Check:
    """Whether each item that came in is there or has left."""
    check, difference = f"queue {name}: books", unaccounted(snapshot)
    if not difference:
        return ok(check, "each item that was enqueued is in the queue or has left it by a call")
    text = (
        f"{count(difference)} missing" if difference > 0 else f"{count(-difference)} that no call has added"
    )
    return problem(check, text, "docs/runbooks/claimq-items-unaccounted.md")


def _lease_check(name: str, queue: ObservedQueue, commands: Commands) -> Check:
    """Workers that hold claims and have not renewed them for longer than a lease lasts."""
    check, now = f"queue {name}: leases", queue.snapshot.now
    silent = [
        worker
        for worker in queue.workers
        if worker.busy and now - worker.last_seen_at > queue.policy.busy_expiry
    ]
    if not silent:
        return ok(check, "all workers with claims renew them")
    first = silent[0]
    holder = f"{first.worker} with {count(first.busy)}, last seen {age(now - first.last_seen_at)} ago"
    text = f"{count(len(silent), 'worker')} not seen within busyExpiry ({age(queue.policy.busy_expiry)}): {holder}"
    release = f"{commands.claimq} release {name} {shlex.quote(first.worker)}"
    return warning(
        check, text, f"the next claim of a live worker returns the items; if the worker is dead: {release}"
    )
