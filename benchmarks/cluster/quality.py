"""The quality of a crawl by four workers in PostgreSQL compared with one process in a folder, over HTTP.

    python benchmarks/cluster/quality.py [WEB] [--topics 6] [--budget 600] [--repeats 2] [--workers 4]

Both get the same topic, seeds, settings and number of requests at once, in turns. They are scored by the log of the
web's server: `auc_vs_oracle`, 1 is best. WEB is the folder of a web of the lab with topics; without it, a synthetic web
of 40 hosts is made. Six topics of 600 fetches, twice, take about 15 minutes on two idle cores.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.postgres_server import PostgresServer, running_server
from checks.small_webs import CONTEXT, PATIENCE_S, crawl, plain, run_command, served
from opilio.api.crawl_session import open_crawl
from opilio.core.settings import Tree
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.server.http import LoggedFetch, fetch_attempts
from opilio.lab.server.server import LabWebServer
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.topics import LabTopic
from opilio.store.postgres.collection import folder_of

CONNECTIONS = 8  # of all workers together
DELAY_S = 0.05


def settings(server: LabWebServer, topic: LabTopic, budget: int, connections: int) -> Tree:
    """The settings of both crawls."""
    brief = topic.brief
    return {
        "strategy": "opilio",
        "topic": {"name": brief.name, "description": brief.description, "keywords": list(brief.keywords)},
        "seeds": {"urls": list(topic.seed_sets[0].urls)},
        "politeness": {"delay_s": DELAY_S, "robots": False},
        "fetch": {"proxy": server.proxy, "retries": 0},
        "stop": {"pages": 0, "fetches": budget, "harvest_below": 0.0},
        "engine": {"workers": 0, "connections": connections},
        "frontier": {"discover": False},
    }


def by_one_process(runner: ExperimentRunner, topic: LabTopic, budget: int) -> list[LoggedFetch]:
    with tempfile.TemporaryDirectory() as place, served(runner.offline.web) as server:
        crawl(Path(place) / "collection", settings(server, topic, budget, CONNECTIONS))
        return fetch_attempts(server.log)


def by_workers(
    runner: ExperimentRunner, topic: LabTopic, budget: int, database: PostgresServer, workers: int
) -> list[LoggedFetch]:
    dsn = database.new_schema()
    with tempfile.TemporaryDirectory() as place, served(runner.offline.web) as server:
        tree = settings(server, topic, budget, CONNECTIONS // workers)

        async def first() -> None:
            async with open_crawl(folder_of(dsn), tree, "quality", lambda _: None, lambda _: None) as session:
                words = ["worker", dsn, "--workers", "0", "--quiet"]
                others = [
                    CONTEXT.Process(target=run_command, args=(words, f"{place}/{n}", place, plain()))
                    for n in range(1, workers)
                ]
                for number, process in enumerate(others, 1):
                    (Path(place) / str(number)).mkdir()
                    process.start()
                await asyncio.wait_for(session.engine.run(), 4 * PATIENCE_S)
            for process in others:
                process.join(PATIENCE_S)

        asyncio.run(first())
        return fetch_attempts(server.log)


def compare(runner: ExperimentRunner, topic: LabTopic, database: PostgresServer, options: argparse.Namespace) -> float:
    """Print the scores of a topic; returns by how much workers are better."""
    scores: dict[str, list[float]] = {"one process": [], "workers": []}
    began = time.monotonic()
    # In turns, so that both meet the same load of the machine.
    for _ in range(options.repeats):
        for name, attempts in (
            ("one process", by_one_process(runner, topic, options.budget)),
            ("workers", by_workers(runner, topic, options.budget, database, options.workers)),
        ):
            score = runner.referee.score(topic, topic.seed_sets[0], attempts, options.budget)
            scores[name].append(score.auc_vs_oracle)
    shown = ", ".join(f"{name} {' '.join(f'{v:.3f}' for v in values)}" for name, values in scores.items())
    print(f"{topic.name}: {shown} ({time.monotonic() - began:.0f} s)", flush=True)
    return statistics.mean(scores["workers"]) - statistics.mean(scores["one process"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("web", type=Path, nargs="?")
    parser.add_argument("--topics", type=int, default=6)
    parser.add_argument("--budget", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, running_server() as database:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        folder = options.web or Path(place) / "web"
        if options.web is None:
            write_synthetic_web(WebShape(), folder)
        runner = ExperimentRunner.open(folder)
        topics = list(runner.topics.values())[: options.topics]
        differences = [compare(runner, topic, database, options) for topic in topics]
    print(f"mean difference {statistics.mean(differences):+.3f} over {len(differences)} topics")


if __name__ == "__main__":
    main()
