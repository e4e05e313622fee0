"""`opilio.compare()`: measure strategies on offline webs with labels."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from opilio.engine.workers.pool import available_cpus
from opilio.lab.experiments.declarations import load_experiment, select_variants
from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.study import Study, StudyOptions, run_jobs
from opilio.lab.reports.comparison import Comparison

OnRun = Callable[[RunResult], None]


def compare(
    strategies: Sequence[str],
    *,
    web: str | Path | Sequence[str | Path],
    topics: Sequence[str] = (),
    fetches: int = 0,
    seed_sets: int = 0,
    random_seed: int = 0,
    processes: int = 0,
    on_run: OnRun | None = None,
) -> Comparison:
    """Crawl offline webs with every strategy, for every topic and seed set, and let the labels judge.

    `web` is a folder or several. `fetches` per run and `seed_sets` of each kind are those of the experiment "compare"
    when left out. `processes` is the number of runs at a time, by default one per core. The results do not depend on
    it. `on_run` is called with each finished run.
    """
    experiment = msgspec.structs.replace(load_experiment("compare"), bounds=())
    webs = [web] if isinstance(web, str | Path) else list(web)
    options = StudyOptions(
        webs=tuple(map(Path, webs)),
        topics=tuple(topics),
        variants=select_variants(experiment, list(strategies)),
        pages=fetches,
        seed_sets=seed_sets,
        random_seed=random_seed,
    )
    study = Study(experiment, options)
    jobs = study.jobs()

    def finished(_place: int, run: RunResult) -> None:
        if on_run is not None:
            on_run(run)

    runs = run_jobs(jobs, processes or available_cpus(), finished)
    return Comparison(runs, [str(problem) for problem in study.problems])
