"""scripts/make_venv.sh where Python can't make environments. Python and apt-get are stand-ins: no system is touched."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_venv.sh"
PYTHON = """#!/bin/sh
case "$*" in
    *ensurepip*) test -e "{folder}/installed" ;;
    *base_prefix*) echo "{home}" ;;
    *python%d*) echo python3.11-venv ;;
    "-m venv"*) echo made >> "{folder}/calls" ;;
esac
"""
APT = """#!/bin/sh
echo "apt-get $*" >> "{folder}/calls"
case "$1" in install) touch "{folder}/installed" ;; esac
"""
IDENTITY = "#!/bin/sh\necho {user}\n"


def _run(folder: Path, home: str, user: int) -> tuple[int, str, str]:
    tools = {"python-x": PYTHON, "apt-get": APT, "id": IDENTITY}
    for name, text in tools.items():
        (folder / name).write_text(text.format(folder=folder, home=home, user=user), encoding="utf-8")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}{os.pathsep}{os.defpath}"}
    command = ["sh", str(SCRIPT), "python-x", str(folder / "venv")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    calls = folder / "calls"
    return done.returncode, done.stderr, calls.read_text(encoding="utf-8") if calls.exists() else ""


def test_package_is_installed_when_root_has_debians_python(tmp_path: Path) -> None:
    code, _, calls = _run(tmp_path, home="/usr", user=0)
    assert code == 0
    assert "install -y -qq --no-install-recommends python3.11-venv" in calls
    assert calls.endswith("made\n")


@pytest.mark.parametrize(("home", "user"), [("/usr", 1000), ("/opt/python", 0), ("/opt/python", 1000)])
def test_system_is_left_alone_and_the_way_out_reported(tmp_path: Path, home: str, user: int) -> None:
    code, result, calls = _run(tmp_path, home, user)
    assert (code, calls) == (2, "")
    assert "sudo apt-get install python3.11-venv" in result or "PYTHON=/usr/bin/python3" in result
