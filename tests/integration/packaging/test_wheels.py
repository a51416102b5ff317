"""What is released holds all it needs to run, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from testkit.repository.tree import COMPONENTS, ROOT, tracked_files
from testkit.waiting import PATIENCE


@pytest.fixture(params=COMPONENTS)
def component(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def built(component: str, place: Path) -> set[str]:
    """The names of the files in the wheel of a component."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT / component, check=True, capture_output=True, timeout=PATIENCE)
    [wheel] = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        return set(files.namelist())


def test_a_wheel_holds_every_file_of_its_package(component: str, tmp_path: Path) -> None:
    source = ROOT / component / "src"
    ours = {str(path.relative_to(source)) for path in tracked_files() if path.is_relative_to(source)}
    names = built(component, tmp_path)
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert f"{COMPONENTS[component]}/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_library_ships_its_scripts(tmp_path: Path) -> None:
    assert sum(name.endswith(".lua") for name in built("core", tmp_path)) > 5
