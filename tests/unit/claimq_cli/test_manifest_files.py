"""Reading the file that `claimq up -f` names."""

from pathlib import Path

import pytest

from claimq.errors import InvalidSpec
from claimq_admin.errors import BAD_MANIFEST, CommandError
from claimq_cli.commands.checking.manifest_files import load_manifests

QUEUE = """
apiVersion: claimq.dev/v1alpha1
kind: ReliableQueue
metadata: {name: %s}
spec: {worker: {command: [app]}, scaling: {maxReplicas: %s}}
"""


def load(tmp_path: Path, text: str, *, url: str | None = None, command: str | None = None) -> list[str]:
    file = tmp_path / "queue.yaml"
    file.write_text(text)
    return [one.spec.queue_name for one in load_manifests(file, url=url, command=command)]


def test_several_documents_are_several_queues(tmp_path: Path) -> None:
    assert load(tmp_path, "---".join([QUEUE % ("one", 2), QUEUE % ("two", 3), "\n"])) == ["one", "two"]


def test_every_mistake_of_every_document_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec) as raised:
        load(tmp_path, "---".join([QUEUE % ("one", "none"), QUEUE % ("Two", 3)]))
    fields = [problem.field for problem in raised.value.problems]
    assert fields == ["document 1: spec.scaling.maxReplicas", "document 2: metadata.name"]


def test_one_document_has_no_number(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec) as raised:
        load(tmp_path, QUEUE % ("one", 0))
    assert raised.value.problems[0].field == "spec.scaling.maxReplicas"


def test_two_queues_of_one_name_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidSpec, match=r"spec\.queueName: is one in several documents; give each queue a unique name"
    ):
        load(tmp_path, "---".join([QUEUE % ("one", 2), QUEUE % ("one", 3)]))


def test_two_objects_of_one_name_are_an_error(tmp_path: Path) -> None:
    other = (QUEUE % ("one", 3)).replace("spec: {", "spec: {queueName: other, ")
    with pytest.raises(InvalidSpec) as raised:
        load(tmp_path, "---".join([QUEUE % ("one", 2), other]))
    (problem,) = raised.value.problems
    assert problem.field == "metadata.name"
    assert problem.message == (
        "is one in several documents of the namespace default; give each ReliableQueue a unique name"
    )


def test_a_command_replaces_the_manifests(tmp_path: Path) -> None:
    (tmp_path / "queue.yaml").write_text(QUEUE % ("one", 1))
    (found,) = load_manifests(tmp_path / "queue.yaml", url="redis://h/0", command="app 'with spaces'")
    assert found.spec.worker.command == ("app", "with spaces")
    assert found.spec.redis is not None
    assert found.spec.redis.url == "redis://h/0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; write a ReliableQueue in it"),
        ("# nothing\n---\n", "is empty"),
        ("a: [1,\n", "is not YAML at line 2"),
        ("a: \x00", "is not YAML"),
        (
            "b: 1\na: 2026-13-45",
            "at line 2, column 4: month must be in 1..12; correct the value, or put it in",
        ),
        (f"a: {'9' * 5000}", "at line 1, column 4: .* correct the value, or put it in quotes"),
        (f"a: {'[' * 5000}", "has hundreds of objects and lists in each other; remove the innermost"),
    ],
)
def test_what_is_no_manifest_is_an_error_with_a_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words) as raised:
        load(tmp_path, text)
    assert raised.value.exit_code == BAD_MANIFEST


def test_a_list_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="give one ReliableQueue"):
        load(tmp_path, "[1, 2]")


def test_a_file_that_is_not_there_or_not_text_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        CommandError, match=r"cannot be read .No such file or directory.; give the path of a manifest"
    ):
        load_manifests(tmp_path / "nothing", url=None, command=None)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="it is not UTF-8"):
        load_manifests(tmp_path / "binary", url=None, command=None)


def test_a_quote_that_is_not_closed_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"--command cannot be split into words .No closing quotation."):
        load(tmp_path, QUEUE % ("one", 1), command="app 'x")


def test_a_key_that_comes_twice_is_a_mistake_with_both_places(tmp_path: Path) -> None:
    twice = QUEUE % ("one", 2) + "spec: {}\n"
    with pytest.raises(
        CommandError, match="at line 6, column 1: the key spec is a duplicate of line 5; remove one"
    ):
        load(tmp_path, twice)
    with pytest.raises(CommandError, match="the key maxReplicas is a duplicate"):
        load(tmp_path, QUEUE % ("one", "2, maxReplicas: 3"))


def test_the_same_key_in_two_places_and_a_merge_are_none(tmp_path: Path) -> None:
    text = QUEUE % ("one", 2)
    text += "  # an anchor that is merged and overridden\n"
    text = text.replace("metadata: {name: one}", "metadata: &m {name: one, labels: {name: one}}")
    assert load(tmp_path, text.replace("&m {name: one,", "{<<: {name: two}, name: one,")) == ["one"]
