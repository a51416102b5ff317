"""The loops for Node.js and Go that docs/languages.md shows, run as they stand there."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from clusterkit import toolchain
from testkit.programs.languages import Command, build_go, install_node
from testkit.programs.processes import Process
from testkit.repository.tree import ROOT
from testkit.waiting import eventually_sync
from testkit.workers.client_drivers import NODE, NPM
from testkit.workers.sidecars import Sidecar

NODE_PROGRAM = """
IMPORT
const work = async (text) => console.log('worked on', text)
SHOWN
"""
GO_PROGRAM = """
package main
import ("context"; "fmt")
IMPORT
func work(payload []byte) error { fmt.Println("worked on", string(payload)); return nil }
func main() {
    ctx := context.Background()
    SHOWN
    fmt.Println(worker.Err())
}
"""


def node(source: Path) -> Command:
    return install_node(NODE, NPM, source, source.parent / "node")


def go(source: Path) -> Command:
    return build_go(toolchain.go(), source, source.parent / "go")


@pytest.mark.parametrize(
    ("language", "program", "build"),
    [("Node.js", NODE_PROGRAM, node), ("Go; errors", GO_PROGRAM, go)],
    ids=["node", "go"],
)
def test_the_loop_of_the_documentation_ends_an_item(
    language: str,
    program: str,
    build: Callable[[Path], Command],
    queue: BlockingQueue,
    sidecar: Sidecar,
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "languages.md").read_text()
    (shown,) = re.findall(rf"^In {language}.*\n\n((?:    .*\n)+)", page, re.MULTILINE)
    first, loop = textwrap.dedent(shown).split("\n", 1)
    source = tmp_path / ("main.go" if build is go else "main.mjs")
    source.write_text(program.replace("IMPORT", first).replace("SHOWN", loop))
    queue.enqueue("cat.png")
    log = tmp_path / "program.log"
    started = Process(build(source), log=log, env={"CLAIMQ_SOCKET": str(sidecar.socket)})
    eventually_sync(lambda: queue.stats()["done"] == 1, needs=[started])
    assert log.read_text() == "worked on cat.png\n"
    started.kill9()
