"""Faults at each step of start-up and shut-down: Ctrl-C, SIGTERM, SIGKILL, errors of the system.

A signal ends the crawl cleanly: exit code 130, one line, no worker left. After a kill or an error no worker is left
either, and the next run completes the crawl: nothing is lost, nothing is stored twice.
"""

import errno
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from checks.small_webs import SmallWeb, crawl, flags, grid, plain, rows, served, settings_for, stored
from opilio.core.errors import CollectionError
from opilio.manage.verify import verify
from opilio.store.collection import collection_exists

SEED = "http://h0.example/0.html"
PAGES = 5  # per host, of a crawl that ends by itself
STEPS = [
    "opilio.engine.wiring.session:recover",
    "opilio.engine.wiring.session:build_fetcher",
    "opilio.engine.wiring.session:load_topic_and_states",
    "opilio.engine.wiring.assembly:build_analysis_parts",
    "opilio.engine.workers.pool:WorkerPool.start",
    "opilio.engine.workers.pool:start_with_signals_blocked",
    "opilio.engine.wiring.session:build_frontier",
    "opilio.engine.wiring.session:CrawlSession._prepare_run",
    "opilio.engine.wiring.session:build_engine",
    "opilio.engine.loop:Engine.run",
]
# Replaces one function by one that first sends the signal to its own process, as a terminal would, at its first call.
SCRIPT = """
import importlib, os, sys
number, times = int(sys.argv[2]), [int(sys.argv[3])]
module, _, path = sys.argv[1].partition(":")
owner = importlib.import_module(module)
*outer, name = path.split(".")
for part in outer:
    owner = getattr(owner, part)
step = getattr(owner, name)
def interrupted(*values, **named):
    for _ in range(times.pop() if times else 0):
        os.kill(os.getpid(), number)
    return step(*values, **named)
setattr(owner, name, interrupted)
from opilio.cli.main import main
sys.argv = ["opilio", *sys.argv[4:]]
main()
"""


def interrupted_at(step: str, number: signal.Signals, folder: Path, times: int = 1, pages: int = 50) -> tuple[int, str]:
    """Exit code and messages of a crawl that is interrupted at a step; returns when no process of it is left."""
    with served(SmallWeb(grid(2, pages))) as server:
        tree = settings_for(server, [SEED], engine={"workers": 2 if pages > PAGES else 1})
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


SHUT_DOWN_STEPS = [
    "opilio.engine.in_flight:InFlight.shut_down",
    "opilio.engine.commit:BatchCommitter.finish",
    "opilio.engine.workers.pool:WorkerPool.close",
    "opilio.store.writer:CollectionWriter.close",
    "opilio.store.seal:write_seal",
]
KILL_STEPS = [
    "opilio.store.collection:_create_files",
    "opilio.engine.workers.pool:start_with_signals_blocked",
    "opilio.engine.commit:BatchCommitter.lease",
    *SHUT_DOWN_STEPS[1:3],
    SHUT_DOWN_STEPS[-1],
]
ERROR_STEPS = [
    "opilio.store.collection:_create_files",
    *(step for step in STEPS if "pool" not in step),
    "opilio.engine.commit:BatchCommitter.lease",
    "opilio.engine.commit:BatchCommitter.commit",
    "opilio.store.writer:CollectionWriter.sync",
    *(step for step in SHUT_DOWN_STEPS if not step.endswith("close")),
    "opilio.fetch.curl:CurlFetcher.close",
]


def completed_afterwards(folder: Path) -> None:
    """The next run takes what is left, every page once."""
    with served(SmallWeb(grid(2, PAGES))) as server:
        crawl(folder, settings_for(server, [SEED]))
    assert sorted(stored(folder)) == sorted(grid(2, PAGES))
    assert rows(folder, "SELECT count(*), count(DISTINCT key) FROM answer") == [(2 * PAGES, 2 * PAGES)]
    assert rows(folder, "SELECT value FROM meta WHERE name = 'state'") == [("stopped",)]
    assert verify(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", KILL_STEPS)
def test_next_run_completes_a_crawl_that_was_killed_at_a_step(tmp_path: Path, step: str) -> None:
    code, messages = interrupted_at(step, signal.SIGKILL, tmp_path / "c", pages=PAGES)
    assert (code, messages) == (-signal.SIGKILL, "")
    completed_afterwards(tmp_path / "c")


@pytest.mark.slow
@pytest.mark.parametrize("step", SHUT_DOWN_STEPS[::2])
def test_signal_at_a_step_of_shut_down_does_not_disturb_it(tmp_path: Path, step: str) -> None:
    """The crawl is complete by then, and ends as without the signal."""
    code, messages = interrupted_at(step, signal.SIGINT, tmp_path / "c", pages=PAGES)
    assert (code, "Traceback" in messages) == (0, False), messages
    assert verify(tmp_path / "c") == []
    completed_afterwards(tmp_path / "c")


@pytest.mark.parametrize("step", ERROR_STEPS)
def test_next_run_completes_a_crawl_that_an_error_ended(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses something at one step. The crawl may end with an error, but not hang or lose a page."""
    module, _, path = step.partition(":")

    def fail(*_values: object, **_named: object) -> None:
        raise OSError(errno.EIO, "injected")

    with monkeypatch.context() as fault, served(SmallWeb(grid(2, PAGES))) as server:
        fault.setattr(f"{module}.{path}", fail)
        with suppress(OSError, CollectionError):
            crawl(tmp_path / "c", settings_for(server, [SEED]))
    completed_afterwards(tmp_path / "c")
