"""The wheel as a user installs it: into a fresh environment, without optional features."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import opilio

ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")

pytestmark = pytest.mark.install


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment in which the wheel is installed, and nothing else that is not required."""
    folder = tmp_path_factory.mktemp("install")
    run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("opilio-*.whl")
    run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    run(folder / "env/bin/python", *PIP, "install", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder / "env"


def test_installed_command_prints_its_version(environment: Path, tmp_path: Path) -> None:
    assert opilio.__version__ in run(environment / "bin/opilio", "--version", cwd=tmp_path)


def test_installed_demo_crawls_and_reports_without_optional_features(environment: Path, tmp_path: Path) -> None:
    shown = run(environment / "bin/opilio", "lab", "demo", "--pages", "100", cwd=tmp_path)
    assert re.search(r"│\s+100 │", shown)
    assert (tmp_path / "demo").is_dir()


def test_installed_package_is_typed_and_has_its_data(environment: Path) -> None:
    (package,) = environment.glob("lib/python*/site-packages/opilio")
    assert (package / "py.typed").exists()
    shipped = {path.relative_to(package) for path in package.rglob("*") if path.suffix not in (".py", ".pyc")}
    source = ROOT / "src" / "opilio"
    ours = {path.relative_to(source) for path in source.rglob("*") if path.suffix not in (".py", ".pyc")}
    assert {path for path in ours if (source / path).is_file()} <= shipped
