"""`claimq drain`: replaces a worker, which gives its items to others."""

from __future__ import annotations

import asyncio

import click

from claimq_admin.errors import NOT_DONE, CommandError
from claimq_cli.cluster.kubectl import Kubectl
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_kubernetes.labels import is_worker_of
from claimq_process.names import pod_of_worker


@click.command()
@queue_argument
@click.argument("worker")
@with_context
async def drain(context: Context, name: str, worker: str) -> None:
    """Replace a worker that hangs: WORKER of the queue NAME.

    On a cluster its pod is deleted: it claims nothing more, and has its time to finish. The app of a worker of
    `claimq up` gets SIGTERM, and ten seconds later SIGKILL. The items go to other workers, and a new worker takes its
    place if one is needed.

    \b
    claimq drain thumbnails thumbnails-1
    claimq -n shop drain orders orders-6c9d-x7k2p

    With -o json: `{"queue", "worker"}`.
    """
    async with context.admin(name) as admin:
        if context.cluster is not None:
            kubectl = context.cluster.kubectl
            pod = await asyncio.to_thread(_pod_of, kubectl, name, worker)
            await admin.record("drain", worker)
            await asyncio.to_thread(kubectl.delete_pod, pod)
            what = f"the pod {pod} is deleted"
        else:
            await admin.record("drain", worker)
            # Only for this command: it reads manifests, which takes long.
            from claimq_local.workers.end_request import end_app

            process = await asyncio.to_thread(end_app, worker, admin.queue.name, context.data)
            if process is None:
                raise CommandError(
                    f"no running `claimq up` has the worker {worker} of {name}; end its process where it runs, and "
                    f"`claimq release {name} {worker}` gives its items back",
                    NOT_DONE,
                )
            what = f"the app (process {process}) is ended"
    context.answers.give({"queue": name, "worker": worker}, f"{name}: {worker} is drained: {what}")


def _pod_of(kubectl: Kubectl, name: str, worker: str) -> str:
    """The pod of a worker, which is named as it claims or as its pod. CommandError if it is no worker of the queue."""
    pod = (pod_of_worker(worker) or (worker, ""))[0]
    if not is_worker_of(kubectl.get(f"pod/{pod}"), name):
        raise CommandError(
            f"the pod {pod} is not a worker of {name}; `claimq workers {name}` lists them", NOT_DONE
        )
    return pod
