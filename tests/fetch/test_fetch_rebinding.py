"""A name server that changes its answer does not lead the fetcher into the local network (DNS rebinding)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checks.rebinding import PUBLIC

TESTS = Path(__file__).parents[1]
NAMESPACES = ["unshare", "--map-root-user", "--mount", "--net"]


def have_namespaces() -> bool:
    try:
        tried = subprocess.run([*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return tried.returncode == 0


def test_name_that_changes_its_address_is_refused(tmp_path: Path) -> None:
    if not have_namespaces():
        pytest.skip("needs namespaces of its own and the commands unshare and ip")
    command = [*NAMESPACES, sys.executable, "-m", "checks.rebinding", str(tmp_path)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["results"][:3] == [
        ["honest.example", PUBLIC, ""],
        ["changing.example", PUBLIC, ""],
        ["changing.example", "", "private-address"],
    ]
    assert found["results"][3][1:] in ([PUBLIC, ""], ["", "private-address"])
    assert set(found["connected"]) == {PUBLIC}, "no connection to the local address was opened"
