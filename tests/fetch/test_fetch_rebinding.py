"""A name server that changes its answer does not lead the fetcher into the local network (DNS rebinding), and one that
does not answer keeps no other host waiting.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `checks.rebinding` found."""
    if not have_namespaces():
        pytest.skip("needs namespaces of its own and the commands unshare and ip")
    command = [*NAMESPACES, sys.executable, "-m", "checks.rebinding", str(tmp_path_factory.mktemp("names"))]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def test_name_that_changes_its_address_is_refused(found: dict[str, Any]) -> None:
    assert found["results"][:3] == [
        ["honest.example", PUBLIC, ""],
        ["changing.example", PUBLIC, ""],
        ["changing.example", "", "private-address"],
    ]
    assert found["results"][3][1:] in ([PUBLIC, ""], ["", "private-address"])
    assert found["connected"] == [PUBLIC], "no connection to the local address was opened"


def test_unknown_name_is_a_failure_of_its_own(found: dict[str, Any]) -> None:
    assert found["in turn"] == [
        ["unknown.example", "", "dns"],
        ["honest.example", PUBLIC, ""],
        ["unknown.example", "", "dns"],
    ]


def test_name_without_an_answer_keeps_no_other_host_waiting(found: dict[str, Any]) -> None:
    assert found["first"] == "http://honest.example/"
