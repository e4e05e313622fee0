"""The tables of S3's experiments with agents, in the paper's layout, with intervals. Pure."""

from collections.abc import Sequence

import numpy as np

from opilio.lab.report import by_strategy, interval, markdown, mean_over_cases, spread
from opilio.lab.results import Run
from opilio.lab.searching import Beyond


def time_table(runs: Sequence[Run], seed: int = 0) -> str:
    """One line a variant: the time until the last page and the precision (S3-30, S3-31, S3-33)."""
    rows = []
    for name, mine in by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        said = [r.self_judged.harvest for r in mine if r.self_judged is not None]
        own = spread(mean_over_cases(mine, said, rng), 2) if len(said) == len(mine) else "–"
        rows.append([name, spread(interval(mine, "virtual_s", rng), 1), spread(interval(mine, "harvest", rng), 3), own])
    return markdown(["variant", "time, s", "precision by label", "by its own judge"], rows)


def diversity_table(runs: Sequence[Run], seed: int = 0) -> str:
    """One line a variant: precision, where the pages come from, time (S3-36)."""
    rows = []
    measures = (
        ("harvest", 3),
        ("hosts", 1),
        ("relevant_hosts", 1),
        ("host_entropy", 2),
        ("places", 1),
        ("virtual_s", 1),
    )
    for name, mine in by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        cost = sum(r.cpu_s for r in mine) / max(1, sum(r.fetched for r in mine))
        cells = [spread(interval(mine, measure, rng), digits) for measure, digits in measures]
        rows.append([name, *cells, f"{1000 * cost:.1f}"])
    head = [
        "precision",
        "hosts",
        "hosts with relevant pages",
        "entropy, bits",
        "directories with relevant pages",
        "time, s",
    ]
    return markdown(["variant", *head, "CPU ms/page"], rows)


def beyond_table(runs: Sequence[Run], seed: int = 0) -> str:
    """One line a variant: what the crawl found that the first results have not (S3-34)."""
    rows = []
    steps: list[list[str]] = []
    for name, mine in by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        found = [r.beyond for r in mine if r.beyond is not None]
        if len(found) < len(mine):
            continue
        rows.append([name, *_beyond(mine, found, rng)])
        steps.append([name, *(f"{np.mean([b.deeper[at] for b in found]):.2f}" for at in range(10))])
    if not rows:
        return ""
    head = ["relevant among the results", "relevant found by the crawl", "of them not among the results"]
    head += ["hosts of both", "explored deeper"]
    tenths = [f"{10 * step} %" for step in range(1, 11)]
    told = "Share of the common hosts explored deeper, after each tenth of the crawl:"
    return f"{markdown(['variant', *head], rows)}\n\n{told}\n\n{markdown(['variant', *tenths], steps)}"


def _beyond(runs: Sequence[Run], found: Sequence[Beyond], rng: np.random.Generator) -> list[str]:
    means = [
        (mean_over_cases(runs, [b.results_relevant for b in found], rng), 1),
        (interval(runs, "relevant_found", rng), 1),
        (mean_over_cases(runs, [b.new_relevant for b in found], rng), 1),
        (mean_over_cases(runs, [b.common_hosts for b in found], rng), 1),
        (mean_over_cases(runs, [b.deeper[-1] for b in found], rng), 2),
    ]
    return [spread(mean, digits) for mean, digits in means]
