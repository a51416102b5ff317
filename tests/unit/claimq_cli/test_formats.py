"""The formats of results, and options that precede the command."""

import json

import click
import pytest
import yaml
from click.testing import CliRunner

from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.output.answers import Answers
from claimq_cli.program import cli, run

ROWS = {"queue": "q", "items": [{"id": "a\x1b", "text": "é\u202e"}, {"id": "b", "text": None}]}


def printed(
    capsys: pytest.CaptureFixture[str], form: str, document: object = ROWS, each: str = "items"
) -> str:
    Answers(form).give_table(document, ["id"], [["a"], ["b"]], each=each)
    return capsys.readouterr().out


def test_yaml_is_the_same_document_without_unprintable_characters(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "yaml")
    assert yaml.safe_load(text) == ROWS
    assert text.replace("\n", "").isprintable()


def test_ndjson_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "ndjson").splitlines()
    assert [json.loads(line) for line in lines] == ROWS["items"]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    "document", [{"queue": "q", "main": 1}, {"queue": "q", "workers": [{"worker": "w"}]}]
)
def test_a_document_without_rows_is_one_line_of_ndjson(
    capsys: pytest.CaptureFixture[str], document: object
) -> None:
    assert json.loads(printed(capsys, "ndjson", document, "")) == document


@pytest.mark.parametrize(
    "text", ["08", "-08", "1e3", "1234e5", ".1e3", "0o14", "0_8", "y", "N", "yes", "012", "1.5"]
)
def test_yaml_quotes_a_string_that_kubernetes_reads_as_another_type(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    Answers("yaml").give({"items": [{"id": text, "attempts": 8, "seconds": 0.5, "is_late": True}]})
    lines = ["items:", f"- id: '{text}'", "  attempts: 8", "  seconds: 0.5", "  is_late: true"]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize("form", ["yaml", "ndjson", "json"])
def test_an_empty_table_is_a_document_too(capsys: pytest.CaptureFixture[str], form: str) -> None:
    Answers(form).give_table({"items": []}, ["id"], [], each="items")
    assert (
        capsys.readouterr().out
        == {"yaml": "items: []\n", "ndjson": "", "json": '{\n  "items": []\n}\n'}[form]
    )


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Options with which `claimq look` and `claimq group look` ran."""
    found: list[object] = []

    @click.command()
    @with_context
    async def look(context: Context) -> None:
        found.append((context.url, str(context.data), context.answers.is_document))

    commands = {**cli.commands, "look": look, "group": click.Group("group", {"look": look})}
    monkeypatch.setattr(cli, "commands", commands)
    return found


@pytest.mark.parametrize("command", [["look"], ["group", "look"]])
def test_options_before_the_command_are_its_options(seen: list[object], command: list[str]) -> None:
    before = ["--redis", "redis://before", "--data", "there", "-o", "yaml"]
    for words in (
        [*before, *command],
        [*before, *command, "--redis", "redis://after", "-o", "table"],
        command,
    ):
        CliRunner().invoke(cli, words, catch_exceptions=False)
    assert seen == [
        ("redis://before", "there", True), ("redis://after", "there", False), (None, "None", False)
    ]  # fmt: skip


def test_an_option_that_the_command_does_not_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["--redis", "redis://h", "validate"])
    assert ended.value.code == 2
    assert "`claimq validate` has no option --redis" in capsys.readouterr().err
