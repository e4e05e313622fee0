"""An experiment that was interrupted: what was done is taken over, and only where it would come out the same."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from checks.killing import still_alive
from opilio.lab.experiments.declarations import Variant
from opilio.lab.experiments.results import RunResult, read_results
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner, RunCheckpoint
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.resources import folder_digest, program_digest

TINY = WebShape(pages=60, hosts=4, topics=2, trap_pages=4, seed_sets=2, slow_hosts=0, failing_hosts=0)


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return write_synthetic_web(TINY, tmp_path / "web")


@pytest.fixture
def job(web: Path, tmp_path: Path) -> ExperimentJob:
    words = tmp_path / "words.txt"
    words.write_text("one")
    variant = Variant(name="mine", strategy="breadth", set={"topic": {"examples": [str(words)]}})
    return ExperimentJob(
        experiment="e", folder=str(web), topic="birds", seed_set="on-topic-1", variant=variant, budget=10
    )


@pytest.fixture
def made(job: ExperimentJob, lab_cache: Path) -> RunResult:
    plain = msgspec.structs.replace(job, variant=Variant(name="breadth"))
    return ExperimentRunner.open(Path(job.folder), lab_cache).run(plain)


@pytest.fixture
def kept(job: ExperimentJob, made: RunResult, lab_cache: Path) -> RunCheckpoint:
    finished = RunCheckpoint.for_jobs([job], lab_cache)
    finished.save(0, made)
    return finished


def test_a_run_that_is_done_is_found_again(
    job: ExperimentJob, made: RunResult, kept: RunCheckpoint, lab_cache: Path
) -> None:
    assert kept.load() == {0: made}
    other = msgspec.structs.replace(job, random_seed=1)
    assert RunCheckpoint.for_jobs([other, job], lab_cache).load() == {1: made}


@pytest.mark.parametrize(
    "change",
    [
        lambda job: msgspec.structs.replace(job, budget=11),
        lambda job: msgspec.structs.replace(job, overrides={"fetch": {"retries": 1}}),
        lambda job: msgspec.structs.replace(job, latency_s=1.0),
    ],
)
def test_another_job_is_run_for_itself(
    change: Callable[[ExperimentJob], ExperimentJob], job: ExperimentJob, kept: RunCheckpoint, lab_cache: Path
) -> None:
    assert kept.load()
    assert not RunCheckpoint.for_jobs([change(job)], lab_cache).load()


@pytest.mark.parametrize("name", ["web/labels.tsv", "web/topics.toml", "web/hosts.toml", "words.txt"])
def test_a_file_that_changed_is_run_with_again(
    name: str, job: ExperimentJob, kept: RunCheckpoint, tmp_path: Path, lab_cache: Path
) -> None:
    assert RunCheckpoint.for_jobs([job], lab_cache).load()
    (tmp_path / name).write_text("# now it says something else")
    assert not RunCheckpoint.for_jobs([job], lab_cache).load()


def test_a_run_that_met_an_error_is_not_kept(job: ExperimentJob, made: RunResult, lab_cache: Path) -> None:
    finished = RunCheckpoint.for_jobs([msgspec.structs.replace(job, budget=12)], lab_cache)
    finished.save(0, msgspec.structs.replace(made, error="1 visits ended with an error"))
    assert not finished.load()


def test_a_cut_file_is_no_run(kept: RunCheckpoint, lab_cache: Path) -> None:
    for file in (lab_cache / f"runs-{program_digest()}").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    assert not kept.load()


@pytest.mark.parametrize("name", ["one.py", "sub/two.py", "sub/more.py", "new.toml"])
def test_another_edition_of_the_program_has_another_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.py").write_text("a = 1")
    (tmp_path / "sub" / "two.py").write_text("b = 2")
    before = folder_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "one.pyc").write_bytes(b"compiled")
    assert folder_digest(tmp_path) == before
    (tmp_path / name).write_text("c = 3")
    assert folder_digest(tmp_path) != before


def _command(web: Path, out: Path, *more: str) -> list[str]:
    few = ["--pages", "40", "--topic", "birds", "--no-plots", "--strategy", "breadth"]
    program = [sys.executable, "-c", "from opilio.cli.main import main; main()"]
    return [*program, "lab", "run", "compare", "--web", str(web), "--out", str(out), *few, *more]


def _facts(out: Path) -> list[RunResult]:
    return [msgspec.structs.replace(r, cpu_s=0.0, wall_s=0.0) for r in read_results(out / "results.json")]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_experiment_goes_on_where_it_stopped(
    by: signal.Signals, web: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is interrupted has more runs than what is asked for afterwards: it can't be over when the signal comes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    kept = tmp_path / "home" / "opilio" / "lab" / f"runs-{program_digest()}"
    process = subprocess.Popen(
        _command(web, tmp_path / "long", "--random-seeds", "200", "--processes", "2"), stderr=subprocess.PIPE
    )
    while not _runs(kept):
        assert process.poll() is None
        time.sleep(0.01)
    helpers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(by)
    result = process.communicate()[1]
    assert b"Traceback" not in result
    assert (b"saved: run the same command again to continue" in result) is (by is signal.SIGINT)
    assert still_alive([int(helper) for helper in helpers]) == []  # a killed command leaves no process behind
    before = _runs(kept)
    again = subprocess.run(
        _command(web, tmp_path / "out", "--processes", "1"), capture_output=True, text=True, check=True
    )
    taken = re.findall(r"8 runs; (\d+) already finished by an interrupted command", again.stderr)
    assert len(taken) == 1
    assert before - _runs(kept) == int(taken[0])  # a third time they are run again
    subprocess.run(_command(web, tmp_path / "whole", "--processes", "1"), capture_output=True, check=True)
    assert _facts(tmp_path / "out") == _facts(tmp_path / "whole")


def _runs(folder: Path) -> int:
    return sum(not path.suffix for path in folder.glob("*"))
