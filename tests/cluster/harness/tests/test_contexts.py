"""When an image is the one that was built before: by the Dockerfile and the files that it copies."""

from pathlib import Path

import pytest

from clusterkit import contexts

DOCKERFILE = """
FROM python:3.13-slim AS build
COPY --chmod=644 requirements/*.txt \\
     requirements/
COPY core core
FROM scratch
COPY --from=build /app /app
ADD main.py /
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    files = ("Dockerfile", "requirements/a.txt", "core/src/one.py", "main.py", "docs/index.md")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(DOCKERFILE if name == "Dockerfile" else "text")
    return tmp_path


def digest(context: Path, *more: str) -> str | None:
    return contexts.digest(context / "Dockerfile", context, *more)


def test_what_stages_copy_from_each_other_is_not_part_of_the_context() -> None:
    assert contexts.copied(DOCKERFILE) == ["requirements/*.txt", "core", "main.py"]


@pytest.mark.parametrize("name", ["requirements/a.txt", "core/src/one.py", "main.py"])
def test_a_changed_file_that_is_copied_makes_another_image(context: Path, name: str) -> None:
    before = digest(context)
    (context / name).write_text("other")
    assert digest(context) != before


@pytest.mark.parametrize("name", ["requirements/b.txt", "core/new/two.py", ".dockerignore"])
def test_a_new_file_makes_another_image(context: Path, name: str) -> None:
    before = digest(context)
    (context / name).parent.mkdir(exist_ok=True)
    (context / name).touch()
    (context / name).write_text("x")
    assert digest(context) != before


def test_a_file_that_may_now_be_executed_makes_another_image(context: Path) -> None:
    before = digest(context)
    (context / "main.py").chmod(0o755)
    assert digest(context) != before


def test_other_arguments_make_another_image(context: Path) -> None:
    assert digest(context, "operator") != digest(context, "sidecar")


@pytest.mark.parametrize("name", ["docs/index.md", "core/src/__pycache__/one.pyc"])
def test_a_file_that_is_not_copied_makes_no_other_image(context: Path, name: str) -> None:
    before = digest(context)
    (context / name).parent.mkdir(exist_ok=True)
    (context / name).write_text("other")
    assert digest(context) == before


def test_a_dockerfile_that_does_not_name_its_files_has_no_digest(context: Path) -> None:
    (context / "Dockerfile").write_text("FROM scratch\nCOPY $FILES /\n")
    assert digest(context) is None
