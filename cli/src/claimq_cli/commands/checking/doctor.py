"""`claimq doctor`: looks for what commonly stops queues from working, and prints the fixes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click

import claimq
from claimq.errors import ClaimqError, RightMissing, ScriptsRefused
from claimq.internals.fsync_setting import with_refused
from claimq.internals.operations import internals
from claimq.model import State
from claimq_admin.cluster.server_settings import ClusterQueue
from claimq_admin.errors import EXPECTED, NOT_DONE, CommandError, ForeignQueue, advice_for, text_of
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import workers_of
from claimq_admin.server_choice import Chosen
from claimq_admin.text import count
from claimq_cli.cluster.access import ClusterAccess
from claimq_cli.cluster.kubectl import KIND, Kubectl
from claimq_cli.commands.checking import cluster_checks, server_checks
from claimq_cli.commands.checking.diagnosis import (
    Check,
    CheckState,
    Commands,
    each_queue_once,
    failed,
    has_problem,
    not_checked,
    ok,
    problem,
    warning,
)
from claimq_cli.commands.options.context import Context, servers_of, with_context
from claimq_cli.commands.options.queue_argument import optional_queue_argument
from claimq_cli.commands.options.queue_names import check_exists
from claimq_process.names import COMPONENT_LABEL, QUEUE_LABEL, WORKER_COMPONENT
from claimq_process.release import RELEASE

_Look = Callable[[str, claimq.ReliableQueue], Awaitable[list[Check]]]
_MOST_QUEUES = 100
_PERMISSIONS = "docs/acl.md lists the permissions"
_WORKERS = f"--selector={QUEUE_LABEL}{{}},{COMPONENT_LABEL}={WORKER_COMPONENT}"
_PERMISSION = "ask for the permission that the message names"


@click.command()
@optional_queue_argument
@with_context
async def doctor(context: Context, name: str | None) -> int:
    """Look for what commonly stops queues from working.

    It prints for each check `ok`, `warning` or `problem`, what was found, and the fix. The exit code is 1 if there is a
    problem. It changes nothing. Monitoring systems use `claimq check`.

    It checks the items and workers of the queue NAME; without it those of all queues (at most 100), of which it prints
    only what is not `ok`. With --namespace or --context it checks the
    ReliableQueues, their worker pods and your permissions too.

    \b
    claimq doctor
    claimq doctor thumbnails
    claimq -n shop doctor orders

    With -o json: `{"checks": [{"check", "state", "message", "fix"}]}`.
    """
    words = [] if context.cluster is None else ["kubectl", *context.cluster.kubectl.options]
    commands = Commands(context.command, " ".join(words))
    if context.cluster is None:
        checks = await _local_server(context, name, commands)
    else:
        checks = await _on_cluster(context.cluster, name, commands)
    lines = [line for check in checks for line in check.lines]
    context.answers.give({"checks": [check.document for check in checks]}, *lines, each="checks")
    return NOT_DONE if has_problem(checks) else 0


async def _local_server(context: Context, name: str | None, commands: Commands) -> list[Check]:
    try:
        (chosen,) = await context.servers(name)
    except CommandError as error:
        return [problem("server", text_of(error), "as the message says")]
    commands = replace(commands, has_scaling=bool(chosen.queues))
    return await _server_checks("server", chosen, name, commands, context.local_decisions())


async def _on_cluster(cluster: ClusterAccess, name: str | None, commands: Commands) -> list[Check]:
    """The checks of the cluster's objects and of the servers; only one if Kubernetes does not answer."""
    first = await asyncio.to_thread(_definition, cluster.kubectl, commands)
    if has_problem([first]):
        return [first]
    parts = await asyncio.gather(
        asyncio.to_thread(_permissions, cluster.kubectl),
        asyncio.to_thread(_reliable_queues, cluster.kubectl, name, commands),
        asyncio.to_thread(_pods, cluster.kubectl, name, commands),
        asyncio.to_thread(_deployments, cluster.kubectl, commands),
        _cluster_servers(cluster, name, commands),
    )
    return each_queue_once([first, *(check for part in parts for check in part)])


def _definition(kubectl: Kubectl, commands: Commands) -> Check:
    try:
        return cluster_checks.definition_check(kubectl.get_path(f"/apis/{cluster_checks.GROUP}"))
    except CommandError as error:
        if "(NotFound)" in str(error):
            return cluster_checks.definition_check(None)
        fix = f"log in to the cluster, or choose another with --context; `{commands.kubectl} cluster-info`"
        return failed(cluster_checks.DEFINITION, error, fix)


def _permissions(kubectl: Kubectl) -> list[Check]:
    try:
        return cluster_checks.permission_checks(
            [
                permission
                for permission in cluster_checks.PERMISSIONS
                if not kubectl.may(permission.verb, permission.resource, permission.subresource)
            ]
        )
    except CommandError as error:
        return [not_checked("permissions", error, "kubectl auth can-i --list")]


def _reliable_queues(kubectl: Kubectl, name: str | None, commands: Commands) -> list[Check]:
    try:
        bodies = [kubectl.get(f"{KIND}/{name}")] if name else kubectl.get(KIND)["items"]
    except CommandError as error:
        return [failed("ReliableQueues", error, f"choose a queue of `{commands.kubectl} get rq`")]
    if not bodies:
        fix = "choose another namespace with --namespace: kubectl get rq --all-namespaces"
        return [problem("ReliableQueues", "the namespace has no ReliableQueue", fix)]
    return [check for body in bodies for check in cluster_checks.status_checks(body, commands)]


def _pods(kubectl: Kubectl, name: str | None, commands: Commands) -> list[Check]:
    try:
        pods = kubectl.get("pods", _WORKERS.format(f"={name}" if name else ""))["items"]
    except CommandError as error:
        return [not_checked("worker pods", error, _PERMISSION)]
    return cluster_checks.pod_checks(pods, _now(), commands)


def _deployments(kubectl: Kubectl, commands: Commands) -> list[Check]:
    try:
        deployments = kubectl.get("deployments", _WORKERS.format(""))["items"]
    except CommandError as error:
        return [not_checked("sidecar images", error, _PERMISSION)]
    try:
        definition: Json = kubectl.get(f"crd/{KIND}")
    except CommandError:  # few users may read definitions
        definition = {}
    releases = cluster_checks.release_checks(deployments, definition, RELEASE)
    return [cluster_checks.image_check(deployments, commands), *releases]


async def _cluster_servers(cluster: ClusterAccess, name: str | None, commands: Commands) -> list[Check]:
    """The checks of the servers of one ReliableQueue or of all, and a problem for each that cannot be found."""
    queues: list[ClusterQueue] = []
    errors: list[str] = []
    try:
        if name:
            queues = [await cluster.queue(name)]
        else:
            usable, errors = await cluster.usable_queues()
            for queue, error in zip(usable, await cluster.owner_errors(usable), strict=True):
                if isinstance(error, ForeignQueue):
                    errors.append(f"{queue.name}: {error}")
                else:  # a server that does not answer is reported below
                    queues.append(queue)
    except EXPECTED as error:
        errors = [text_of(error)]
    fix = "as the message says: correct spec.redis of the ReliableQueue, its Secret, its server or your permissions"
    checks = [failed("server", CommandError(message), fix) for message in errors]
    for chosen in servers_of(queues):
        subject = f"server of {', '.join(chosen.queues)}"
        checks += await _server_checks(subject, chosen, name, commands)
    return checks


async def _server_checks(
    subject: str, chosen: Chosen, name: str | None, commands: Commands, decisions: Mapping[str, Json] = {}
) -> list[Check]:
    """The checks of one server, and of the queue that is named. An error of one does not hide the others.
    ``decisions``: of local mode by queue, with their conditions."""
    async with claimq.connect(settings=chosen.settings) as server:
        try:
            await server.ping()
        except EXPECTED as error:
            fix = advice_for(error) or "as the message says, or correct the address, user and password"
            return [problem(subject, text_of(error), f"{fix}; docs/reference/status.md#redisreachable")]
        some_queue = server.queue(chosen.queue_name(name or next(iter(chosen.queues), "doctor")))
        checks = await _checked(subject, _report(subject, server))
        checks += await _checked(f"scripts on the {subject}", _scripts(subject, some_queue))
        checks += await _checked(f"clock of the {subject}", _clock(subject, some_queue))
        memory_check, most = await _memory(subject, some_queue)
        checks.append(memory_check)
        look = partial(_queue, server, commands, most, decisions)
        if name:
            checks += await _checked(f"queue {name}", look(name, some_queue))
        else:
            queues = _queues(subject, server, chosen, commands, look)
            checks += await _checked(f"queues on the {subject}", queues)
    return checks


async def _queues(
    subject: str, server: claimq.Server, chosen: Chosen, commands: Commands, look: _Look
) -> list[Check]:
    """What is not ok of the queues on a server: those of local mode or of ReliableQueues, else those in its list."""
    names = list(chosen.queues) or await server.queues()
    checks: list[Check] = []
    for name in names[:_MOST_QUEUES]:
        queue = server.queue(chosen.queue_name(name))
        checks += await _checked(f"queue {name}", _if_it_exists(name, queue, look))
    rest = len(names) - _MOST_QUEUES
    summary = ok(f"queues on the {subject}", f"{count(len(names[:_MOST_QUEUES]), 'queue')} checked")
    if rest > 0:
        summary = warning(summary.check, f"{summary.message}, {rest:,} not", f"{commands.claimq} doctor NAME")
    return [summary, *(check for check in checks if check.state is not CheckState.OK)]


async def _if_it_exists(name: str, queue: claimq.ReliableQueue, look: _Look) -> list[Check]:
    return await look(name, queue) if await queue.exists() else []


async def _checked(check: str, checks: Awaitable[list[Check]]) -> list[Check]:
    try:
        return await checks
    except ScriptsRefused as error:
        return [problem(check, text_of(error), "use a server of the table in docs/servers.md")]
    except RightMissing as error:
        return [not_checked(check, error, _PERMISSIONS)]
    except EXPECTED as error:
        return [problem(check, text_of(error), advice_for(error) or "as the message says")]


async def _report(subject: str, server: claimq.Server) -> list[Check]:
    """The server's settings. Also those that the policy of a queue in the server's list needs, if the user may read
    it."""
    report = await server.report()
    with suppress(ClaimqError):
        for name in (await server.queues(only_existing=False))[:_MOST_QUEUES]:
            policy = await server.queue(name).policy()
            always = policy.appendfsync_always
            report = with_refused(report, policy.durability, is_always=always, queue=f"queue {name}")
    return server_checks.report_checks(subject, report)


async def _scripts(subject: str, queue: claimq.ReliableQueue) -> list[Check]:
    await internals(queue).try_scripts()
    return [ok(f"scripts on the {subject}", "the server can run them")]


async def _clock(subject: str, queue: claimq.ReliableQueue) -> list[Check]:
    """Reads the server's clock with the state of a queue, which may be one that does not exist."""
    before = _now()
    snapshot = await queue.snapshot()
    return [server_checks.clock_check(subject, snapshot.now, before, _now())]


async def _keys(name: str, queue: claimq.ReliableQueue) -> list[Check]:
    return server_checks.damage_checks(name, await internals(queue).damage())


async def _memory(subject: str, queue: claimq.ReliableQueue) -> tuple[Check, int]:
    """The check, and what the server may use in bytes: 0 without a limit, or if it cannot be read."""
    try:
        used, most = await queue.server_memory()
    except EXPECTED as error:  # such as INFO that is hidden from the user, or does not have the memory
        return not_checked(f"memory of the {subject}", error, _PERMISSIONS), 0
    return server_checks.memory_check(subject, used / most if most else None), most


async def _queue(
    server: claimq.Server,
    commands: Commands,
    memory: int,
    decisions: Mapping[str, Json],
    name: str,
    queue: claimq.ReliableQueue,
) -> list[Check]:
    try:
        await check_exists(server, queue)
    except CommandError as error:
        return [
            problem(
                f"queue {name}",
                str(error),
                f"its first item creates it: {commands.claimq} enqueue {name} ITEM",
            )
        ]
    snapshot = await queue.snapshot(neighbours=True)
    policy, workers = await queue.policy(), await workers_of(queue)
    reasons = await queue.failed_reasons() if snapshot.lengths[State.FAILED] else {}
    decision = decisions.get(name, {})
    has_conditions = bool(commands.kubectl or decision)  # those of a ReliableQueue have a check of their own
    may_hang = decision.get("longItem", "") if has_conditions else None
    observed = server_checks.ObservedQueue(
        snapshot, workers, policy, reasons, memory, decision.get("unready", ""), may_hang
    )
    keys = await _checked(f"queue {name}: keys", _keys(name, queue))
    return [*server_checks.queue_checks(name, observed, commands), *keys]


def _now() -> float:
    """This machine's clock."""
    return time.time()  # noqa: TID251 - compared with the server's clock and with the timestamps of pods
