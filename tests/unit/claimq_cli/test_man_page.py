"""The manual page is what scripts/make_man.py makes of the commands' help, and groff formats it."""

import shutil
import subprocess

import click
import pytest

from claimq_cli.program import cli
from testkit.tree import ROOT, script

PAGE = ROOT / "cli" / "man" / "claimq.1"


@pytest.fixture(scope="module")
def page() -> str:
    """The page as the repository has it."""
    return PAGE.read_text()


def test_the_page_is_made_from_the_help(page: str) -> None:
    script("command_line")  # the other script imports it
    made = script("make_man").man_page()
    assert page == made, "run: python scripts/make_man.py"


def test_the_page_has_all_commands_and_options(page: str) -> None:
    lines = page.replace(r"\-", "-").splitlines()

    def check(command: click.Command, path: str) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), name)
                assert found is not None
                check(found, f"{path} {name}")
            return
        (begin,) = [n for n, line in enumerate(lines) if f"{line} ".startswith(f".SS {path} ")]
        end = next(n for n, line in enumerate(lines) if n > begin and line.startswith((".SS", ".SH")))
        own = "\n".join(lines[begin:end])
        for option in command.params:
            if isinstance(option, click.Option) and option.name not in {one.name for one in cli.params}:
                assert option.opts[-1] in own, (path, option.opts)

    check(cli, "claimq")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_formats_the_page_without_a_warning() -> None:
    found = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Kutf8", str(PAGE)], capture_output=True, text=True, check=True
    )
    assert found.stderr == ""
