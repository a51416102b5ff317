"""The harness on the command line."""

import argparse
import atexit
import os
import sys
from pathlib import Path

from clusterkit import build, lifecycle, proven, sessions
from clusterkit.cluster import Cluster
from clusterkit.errors import HarnessError
from clusterkit.layout import MAX_NODES, Layout
from clusterkit.lock import locked
from clusterkit.own_cluster import OwnCluster
from clusterkit.processes import Processes
from clusterkit.state import read_state
from clusterkit.toolchain import helm, install_packages

_ABOUT = """A real Kubernetes on this machine, in namespaces of its own. Needs root and Linux.

With KUBE_CONTEXT set that existing cluster is used instead: nothing is brought up or taken down, and images are
loaded by kind, k3d or minikube, or pushed to IMAGE_REGISTRY.
"""


def main() -> int:
    asked = _parser().parse_args()
    try:
        return int(asked.action(asked))
    except HarnessError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _up(asked: argparse.Namespace) -> int:
    found = sessions.existing()
    if found is not None:
        print(
            f"using the existing cluster {found.name!r} (KUBE_CONTEXT), {len(found.nodes)} nodes; nothing to bring up"
        )
        found.close()
        return 0
    layout = Layout(asked.name)
    with locked(layout.lock, "bringing it up", wait=asked.wait):
        is_new = lifecycle.up(layout, asked.nodes, wait=asked.wait)
    print(
        f"the cluster {asked.name!r} is up{'' if is_new else ' already'}: make cluster-shell, make cluster-down"
    )
    return 0


def _down(asked: argparse.Namespace) -> int:
    if context := sessions.existing_context():
        print(f"the existing cluster {context!r} (KUBE_CONTEXT) is left alone")
        return 0
    if impossible := lifecycle.why_impossible():
        raise HarnessError(impossible)
    refused: list[HarnessError] = []
    for name in lifecycle.names_of_all() if asked.all else [asked.name]:
        layout = Layout(name)
        try:
            with locked(layout.lock, "taking it down", wait=asked.wait):
                was_there = lifecycle.down(layout)
        except HarnessError as error:
            refused.append(error)  # the others are taken down all the same
        else:
            print(
                f"the cluster {name!r} {'is down, and nothing of it is left' if was_there else 'was not there'}"
            )
    if refused:
        raise HarnessError("\n".join(str(error) for error in refused))
    return 0


def _status(asked: argparse.Namespace) -> int:
    """0: up and whole. 1: down. 2: something is wrong with it."""
    layout = Layout(asked.name)
    processes = Processes(layout)
    state = read_state(layout)
    if state is None and not layout.folder.exists() and not processes.cgroup.processes():
        print(f"the cluster {asked.name!r} is down")
        return 1
    ailments = lifecycle.ailments(layout)
    print(f"the cluster {asked.name!r}: {len(processes.cgroup.processes())} processes, logs in {layout.logs}")
    for ailment in ailments:
        print(f"  {ailment}")
    if ailments:
        print(
            "  make cluster-up clears it away and brings up a new one; make cluster-down only clears it away"
        )
        return 2
    print(OwnCluster(layout).kubectl("get", "nodes,pods", "--all-namespaces", "-o", "wide"))
    return 0


def _shell(asked: argparse.Namespace) -> int:
    cluster = _found(asked)
    if not asked.command:
        print(
            f"kubectl and helm work here, on the cluster {cluster.name!r}; leave with exit", file=sys.stderr
        )
    return cluster.shell([word for word in asked.command if word != "--"])


def _image(asked: argparse.Namespace) -> int:
    cluster = _found(asked)
    arguments = dict(word.split("=", 1) for word in asked.build_arg)
    built = cluster.build_image(
        asked.file, asked.tag, target=asked.target, context=asked.context, build_args=arguments
    )
    print(cluster.load_image(built))
    return 0


def _build(asked: argparse.Namespace) -> int:
    install_packages()
    for made in (build.pause, build.coredns, build.kube_score, build.kubernetes):
        print(made(fresh=asked.fresh))
    print(helm())
    return 0


def _passed(_: argparse.Namespace) -> int:
    if not sessions.existing_context() and not lifecycle.why_impossible():
        proven.note_passed()
    return 0


def _found(asked: argparse.Namespace) -> Cluster:
    found = sessions.existing()
    if found is None:
        return OwnCluster(Layout(asked.name))
    atexit.register(found.close)
    return found


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("clusterkit", description=_ABOUT, formatter_class=formatter)
    parser.add_argument(
        "--name",
        default=os.environ.get("CLAIMQ_CLUSTER") or "claimq",
        help="which cluster (default: %(default)s)",
    )
    wait = argparse.ArgumentParser(add_help=False)
    wait.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="wait so long for others that use it"
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    up = actions.add_parser(
        "up", parents=[wait], help="bring it up; remains of an earlier one are cleared away"
    )
    up.add_argument(
        "--nodes", type=int, default=1, choices=range(1, MAX_NODES + 1), help="how many (default: 1)"
    )
    up.set_defaults(action=_up)
    down = actions.add_parser("down", parents=[wait], help="take it down completely, whatever is left of it")
    down.add_argument(
        "--all", action="store_true", help="every cluster of this machine, those of tests as well"
    )
    down.set_defaults(action=_down)
    actions.add_parser("status", help="what runs; status 0 up, 1 down, 2 broken").set_defaults(action=_status)
    shell = actions.add_parser("shell", help="a shell in which kubectl and helm work, or one command")
    shell.add_argument("command", nargs=argparse.REMAINDER)
    shell.set_defaults(action=_shell)
    image = actions.add_parser("image", help="build a Dockerfile's target and load it into every node")
    image.add_argument("tag")
    image.add_argument("--file", type=Path, default=Path("Dockerfile"))
    image.add_argument("--target")
    image.add_argument("--context", type=Path)
    image.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    image.set_defaults(action=_image)
    built = actions.add_parser("build", help="only build and fetch what a cluster needs, into the cache")
    built.add_argument("--fresh", action="store_true", help="build again though it is there")
    built.set_defaults(action=_build)
    passed = actions.add_parser("passed", help="record that all tests of clusterkit have just passed")
    passed.set_defaults(action=_passed)
    return parser


if __name__ == "__main__":
    sys.exit(main())
