"""The repository as a stranger finds it: it names no machine, no registry, and its set-up is complete."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Built from parts so that this file does not name what it looks for.
MACHINE = re.compile("|".join(["/" + "work/", "/" + "root/", "index-" + "url", "trusted-" + "host"]))
PINNED = re.compile(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+")
BINARY = {".npz", ".gz", ".png", ".svg", ".woff2"}


def _tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]  # also where another user checked it out
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return sorted({re.split(r"[><=!;\[ ]", line)[0] for group in groups for line in group})


def _constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_names_of_tracked_files_are_plain() -> None:
    """A control character or a leading dash in a name is a left-over of some program."""
    names = [str(path.relative_to(ROOT)) for path in _tracked()]
    assert [name for name in names if not re.fullmatch(r"[\w.][\w./@-]*", name)] == []


def test_no_tracked_file_names_a_machine() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked()
        if path.suffix not in BINARY
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert named == []


def test_every_requirement_is_pinned() -> None:
    pinned = {_plain(line.partition("==")[0]) for line in _constraints()}
    assert [name for name in _requirements() if _plain(name) not in pinned] == []


@pytest.mark.parametrize("line", _constraints())
def test_constraint_is_a_name_and_a_version(line: str) -> None:
    assert PINNED.fullmatch(line)


def test_ci_runs_what_everybody_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "make test"
    assert len(commands) == 3


@pytest.mark.parametrize("target", ["install", "demo", "check", "test"])
def test_make_knows_the_target(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by base name, so two of one name would hide each other."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
