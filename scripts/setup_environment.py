"""Makes or mends .venv: the locked requirements by their hashes, then the components, editable.

Usage: setup_environment.py runtime|dev. `runtime` is what the demo and the command line need; `dev` adds the
checks and the tests. Run by `scripts/setup`, with the standard library alone.

A stamp in .venv holds a hash of all that decides its content: the requirement files, the components'
pyproject.toml, this file, the interpreter and the place of the checkout. With the same hash, an interpreter that
starts and components that are found, there is nothing to do. Anything else is put right, never assumed.
"""

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
ORIGIN = VENV / ".claimq-origin"
COMPONENTS = {
    "core": "claimq",
    "process": "claimq_process",
    "control": "claimq_control",
    "kubernetes_client": "claimq_kubernetes",
    "worker_sidecar": "claimq_sidecar",
    "admin": "claimq_admin",
    "web": "claimq_web",
    "local": "claimq_local",
    "cli": "claimq_cli",
    "operator": "claimq_operator",
}
REQUIREMENTS = {"runtime": ("build.txt", "runtime.txt"), "dev": ("dev.txt",)}
"""Level to files. dev.txt holds the other two, at the same versions."""
PIP: list[str | Path] = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
EACH = 20
"""After how many packages the progress is printed."""
NOT_OURS = {"pip", "setuptools", "wheel"}
"""What the interpreter itself puts into a new environment."""


def main(arguments: list[str]) -> int:
    """Brings .venv to the level asked for; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in REQUIREMENTS:
        print(f"usage: {Path(__file__).name} {'|'.join(REQUIREMENTS)}", file=sys.stderr)
        return 2
    with Path(__file__).open() as guard:
        # Two `make` at once: the second waits, and then finds nothing left to do.
        fcntl.flock(guard, fcntl.LOCK_EX)
        level = "dev" if stamp("dev").exists() else arguments[0]
        if is_up_to_date(level):
            return 0
        return bring_to(level)


def stamp(level: str) -> Path:
    """The file whose content is the fingerprint of what was installed."""
    return VENV / f".claimq-{level}"


def fingerprint(level: str) -> str:
    """A hash of everything that decides what is in .venv at this level."""
    digest = hashlib.sha256(origin().encode())
    manifests = [ROOT / component / "pyproject.toml" for component in COMPONENTS]
    for path in [*(ROOT / "requirements" / name for name in REQUIREMENTS[level]), *manifests, Path(__file__)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def is_up_to_date(level: str) -> bool:
    """Whether .venv has been brought to this level, with this interpreter, and still works."""
    return stamp(level).exists() and stamp(level).read_text() == fingerprint(level) and finds_components()


def finds_components() -> bool:
    """Whether the environment's interpreter starts and sees the components in this checkout."""
    checks = (
        "import importlib.util as u, sys; "
        f"sys.exit(any(u.find_spec(name) is None for name in {list(COMPONENTS.values())!r}))"
    )
    return runs([PYTHON, "-I", "-c", checks], quiet=True)


def is_same_interpreter() -> bool:
    """Whether .venv was made by the very Python that runs this, in this place, and its interpreter still starts."""
    was_made_so = ORIGIN.exists() and ORIGIN.read_text() == origin()
    return was_made_so and runs([PYTHON, "-m", "pip", "--version"], quiet=True)


def origin() -> str:
    """What an environment cannot survive a change of: its programs carry its path, its packages the interpreter's."""
    return f"{sys.version}\n{sysconfig.get_platform()}\n{VENV}\n"


def bring_to(level: str) -> int:
    """Installs; leaves a stamp only behind a whole installation."""
    for name in REQUIREMENTS:
        stamp(name).unlink(missing_ok=True)
    if not is_same_interpreter():
        if VENV.exists():
            shutil.rmtree(VENV)
        step(f"making .venv with Python {sys.version.split()[0]}")
        venv.create(VENV, with_pip=True, symlinks=True)
        ORIGIN.write_text(origin())
    files = [option for name in REQUIREMENTS[level] for option in ("-r", ROOT / "requirements" / name)]
    editable = [option for component in COMPONENTS for option in ("-e", ROOT / component)]
    if not (
        install_locked(level, files)
        and uninstall_the_rest(level)
        and step(f"installing claimq's {len(COMPONENTS)} components")
        and pip("install", "--no-deps", "--no-build-isolation", *editable)
        and finds_components()
    ):
        print(
            "setup: not finished: see the error above. It needs a Python package index"
            " (pip's own settings say which); run it again when that is reachable.",
            file=sys.stderr,
        )
        return 1
    stamp(level).write_text(fingerprint(level))
    return 0


def step(text: str) -> bool:
    """Prints what begins now. True, for a chain of steps."""
    print(f"setup: {text}", flush=True)
    return True


def locked(level: str) -> set[str]:
    """The names of the packages in the requirement files of a level."""
    text = "".join((ROOT / "requirements" / name).read_text() for name in REQUIREMENTS[level])
    return {normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)}


def install_locked(level: str, files: list[str | Path]) -> bool:
    """Installs the locked requirements. Prints how far it is, since the first time takes minutes."""
    total = len(locked(level))
    step(f"fetching the {total} locked {level} requirements")
    command = [*PIP, "install", "--progress-bar", "off", "--require-hashes", *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        found = 0
        for line in running.stdout or ():
            found += line.startswith(("Collecting ", "Requirement already satisfied: "))
            if line.startswith("Collecting ") and found % EACH == 0:
                step(f"fetched {found} of {total}")
            elif line.startswith("Installing collected packages"):
                step(f"unpacking {line.count(',') + 1}, which takes a minute or two")
    return running.returncode == 0


def uninstall_the_rest(level: str) -> bool:
    """Removes what an earlier lock file had brought, so that nothing works here by accident."""
    wanted = locked(level) | NOT_OURS | {normal(name) for name in COMPONENTS.values()}
    listing: list[str | Path] = [PYTHON, "-m", "pip", "freeze", "--all", "--exclude-editable"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=False)
    found = {
        normal(re.split(r"[ =@]", line)[0]) for line in listed.stdout.splitlines() if line and line[0] != "#"
    }
    rest = sorted(found - wanted)
    return not rest or pip("uninstall", "--yes", *rest)


def normal(name: str) -> str:
    """A distribution's name in the one spelling that compares equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pip(command: str, *arguments: str | Path) -> bool:
    """Runs the environment's own pip; its errors go to the terminal."""
    return runs([*PIP, "--quiet", command, *arguments])


def runs(command: list[str | Path], *, quiet: bool = False) -> bool:
    """Whether the command starts and succeeds."""
    sink = subprocess.DEVNULL if quiet else None
    try:
        return subprocess.run(command, stdout=sink, stderr=sink, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
