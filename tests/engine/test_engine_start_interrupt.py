"""Ctrl-C and SIGTERM at each step of start-up end the crawl cleanly: exit code 130, one line, no worker left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checks.small_webs import SmallWeb, flags, grid, plain, served, settings_for
from opilio.manage.verify import verify
from opilio.store.collection import collection_exists

SEED = "http://h0.example/0.html"
STEPS = [
    "opilio.engine.wiring.session:recover",
    "opilio.engine.wiring.session:build_fetcher",
    "opilio.engine.wiring.session:load_topic_and_states",
    "opilio.engine.wiring.assembly:build_analysis_parts",
    "opilio.engine.workers.pool:WorkerPool.start",
    "opilio.engine.workers.pool:start_with_signals_blocked",
    "opilio.engine.wiring.session:build_frontier_policy",
    "opilio.engine.wiring.session:CrawlSession._prepare_run",
    "opilio.engine.wiring.session:build_engine",
    "opilio.engine.loop:Engine.run",
]
# Replaces one function by one that first sends the signal to its own process, as a terminal would.
SCRIPT = """
import importlib, os, sys
number, times = int(sys.argv[2]), int(sys.argv[3])
module, _, path = sys.argv[1].partition(":")
owner = importlib.import_module(module)
*outer, name = path.split(".")
for part in outer:
    owner = getattr(owner, part)
step = getattr(owner, name)
def interrupted(*values, **named):
    for _ in range(times):
        os.kill(os.getpid(), number)
    return step(*values, **named)
setattr(owner, name, interrupted)
from opilio.cli.main import main
sys.argv = ["opilio", *sys.argv[4:]]
main()
"""


def interrupted_at(step: str, number: signal.Signals, folder: Path, times: int = 1) -> tuple[int, str]:
    """Exit code and messages of a crawl that is interrupted at a step; returns when no process of it is left."""
    with served(SmallWeb(grid(2, 50))) as server:
        tree = settings_for(server, [SEED], engine={"workers": 2})
        arguments = ["crawl", *flags(tree), "--into", folder]
        command = [sys.executable, "-c", SCRIPT, step, str(int(number)), str(times), *map(str, arguments)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain(), start_new_session=True
        ) as process:
            _, messages = process.communicate()
    while session_members(process.pid):
        time.sleep(0.01)
    return process.returncode, messages


def session_members(session: int) -> list[int]:
    """Processes of a session that have not ended: the workers inherit it from the engine."""
    members = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, sid, *_ = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(sid) == session and state != "Z":
            members.append(int(entry.name))
    return members


@pytest.mark.parametrize("step", STEPS)
def test_signal_at_a_step_of_start_up_ends_the_crawl_cleanly(tmp_path: Path, step: str) -> None:
    number = signal.SIGINT if STEPS.index(step) % 2 else signal.SIGTERM
    code, messages = interrupted_at(step, number, tmp_path / "c")
    assert (code, "Traceback" in messages) == (130, False), messages
    if collection_exists(tmp_path / "c"):
        assert verify(tmp_path / "c") == []


def test_second_signal_during_start_up_quits_at_once(tmp_path: Path) -> None:
    step = "opilio.engine.workers.pool:WorkerPool.start"
    code, messages = interrupted_at(step, signal.SIGINT, tmp_path / "c", times=2)
    assert (code, "Traceback" in messages) == (130, False), messages
