"""Tables over topics × seed sets, with intervals and paired tests, also those of S3's experiments. Pure.

A case (web, topic, seed set) is the unit: repetitions of it with other random seeds are averaged first, since they are
not independent evidence (in a crawl without randomness they are copies).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from opilio.lab.evaluation.statistics import (
    ConfidenceInterval,
    PairedTest,
    bootstrap_mean,
    holm_correction,
    paired_test,
)
from opilio.lab.experiments.declarations import DEVELOPMENT, HELD_OUT, topic_half
from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.search_engine import SearchComparison

CaseKey = tuple[str, str, str]


class PairedComparison(NamedTuple):
    """Two strategies over the cases they share."""

    ours: str
    theirs: str
    test: PairedTest
    corrected_p: float


def group_by_strategy(runs: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """Runs grouped by strategy, strategies in the order they first appear."""
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(run.strategy, []).append(run)
    return groups


def measure_interval(runs: Sequence[RunResult], measure: str, rng: np.random.Generator) -> ConfidenceInterval:
    """Mean of one measure with its interval."""
    return mean_over_cases(runs, _values(runs, measure), rng)


def mean_over_cases(runs: Sequence[RunResult], values: Sequence[float], rng: np.random.Generator) -> ConfidenceInterval:
    """Mean of one value per run with its interval: topics are resampled first, then cases within them."""
    cases = _case_means(runs, values)
    return bootstrap_mean(list(cases.values()), rng, groups=[case[:2] for case in cases])


def run_indices_by_case(runs: Sequence[RunResult]) -> dict[CaseKey, list[int]]:
    """Indexes of the runs of each case, cases in the order they first appear."""
    places: dict[CaseKey, list[int]] = {}
    for at, run in enumerate(runs):
        places.setdefault((run.web, run.topic, run.seed_set), []).append(at)
    return places


def paired_comparisons(
    runs: Sequence[RunResult], reference: str, measure: str = "auc_vs_oracle"
) -> list[PairedComparison]:
    """The reference strategy against every other, over the same topics and seed sets."""
    groups = {name: _case_means(mine, _values(mine, measure)) for name, mine in group_by_strategy(runs).items()}
    mine = groups.get(reference, {})
    tests: list[tuple[str, PairedTest]] = []
    for other, theirs in groups.items():
        shared = sorted(mine.keys() & theirs.keys())
        if other != reference and shared:
            tests.append((other, paired_test([mine[c] for c in shared], [theirs[c] for c in shared])))
    corrected = holm_correction([t.p_value for _, t in tests])
    return [PairedComparison(reference, other, t, p) for (other, t), p in zip(tests, corrected, strict=True)]


def _values(runs: Sequence[RunResult], measure: str) -> list[float]:
    return [float(getattr(run, measure)) for run in runs]


def _case_means(runs: Sequence[RunResult], values: Sequence[float]) -> dict[CaseKey, float]:
    return {case: float(np.mean([values[at] for at in places])) for case, places in run_indices_by_case(runs).items()}


def strategy_table(runs: Sequence[RunResult], seed: int = 0) -> str:
    """One row per strategy: means with 95 % intervals."""
    rows = []
    for name, mine in group_by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        cells = [format_interval(measure_interval(mine, m, rng)) for m in ("auc_vs_oracle", "harvest", "recall")]
        cost = sum(r.cpu_s for r in mine) / max(1, sum(r.fetched for r in mine))
        rows.append([name, str(len(mine)), *cells, _format_mean(mine, "to_half"), f"{1000 * cost:.1f}"])
    head = ["strategy", "runs", "auc_vs_oracle", "harvest", "recall", "fetches to 50 %", "CPU ms/page"]
    return markdown_table(head, rows)


def _format_mean(runs: Sequence[RunResult], measure: str) -> str:
    values = [getattr(r, measure) for r in runs]
    reached = [v for v in values if v is not None]
    if not reached:
        return "never"
    note = "" if len(reached) == len(values) else f" ({len(reached)} of {len(values)} runs)"
    return f"{sum(reached) / len(reached):.0f}{note}"


def comparison_table(found: Sequence[PairedComparison]) -> str:
    """Paired comparisons: mean difference, p (Wilcoxon, Holm-corrected), effect size."""
    rows = [
        [
            f"{p.ours} − {p.theirs}",
            f"{p.test.difference:+.3f}",
            f"{p.test.wins} : {p.test.losses}",
            f"{p.corrected_p:.2g}",
            f"{p.test.rank_biserial:+.2f}",
        ]
        for p in found
    ]
    return markdown_table(["difference in auc_vs_oracle", "mean", "wins : losses", "p", "rank-biserial"], rows)


def topic_table(runs: Sequence[RunResult], measure: str = "auc_vs_oracle") -> str:
    """One row per topic, one column per strategy."""
    groups = group_by_strategy(runs)
    topics = list(dict.fromkeys(r.topic for r in runs))
    rows = []
    for topic in topics:
        means = [[float(getattr(r, measure)) for r in mine if r.topic == topic] for mine in groups.values()]
        rows.append([topic, *(f"{np.mean(m):.3f}" if m else "–" for m in means)])
    return markdown_table(["topic", *groups], rows)


def seed_table(runs: Sequence[RunResult], measure: str = "auc_vs_oracle") -> str:
    """One row per kind of seed set (on-topic, generic), one column per strategy."""
    groups = group_by_strategy(runs)
    kinds = list(dict.fromkeys(seed_kind(r.seed_set) for r in runs))
    rows = []
    for kind in kinds:
        means = [
            [float(getattr(r, measure)) for r in mine if seed_kind(r.seed_set) == kind] for mine in groups.values()
        ]
        rows.append([kind, *(f"{np.mean(m):.3f}" if m else "–" for m in means)])
    return markdown_table(["seeds", *groups], rows)


def split_by_seed_kind(runs: Iterable[RunResult]) -> list[RunResult]:
    """Runs named as in S2-40: T1 is variant 1 from on-topic seeds, G1 the same from generic ones."""
    letters = {"on-topic": "T", "generic": "G"}
    named = [replace(run, strategy=letters.get(seed_kind(run.seed_set), "") + run.strategy) for run in runs]
    return sorted(named, key=lambda run: (run.strategy[0] != "T", run.strategy))


def seed_kind(name: str) -> str:
    """The kind of a seed set: `on-topic` for `on-topic-2`."""
    return name.rstrip("0123456789").rstrip("-").removesuffix("-of") or name


def parts_table(runs: Sequence[RunResult]) -> str:
    """The parts separately (S2-49): quality of the link scores, failures and duplicates."""
    rows = []
    predicts = any(r.links is not None and r.links.precision is not None for r in runs)
    for name, mine in group_by_strategy(runs).items():
        links = [r.links for r in mine if r.links is not None]
        cells = [_format_mean_known([x.auc for x in links]), _format_mean_known([x.calibration_error for x in links])]
        cells += [_format_mean_known([x.precision for x in links])] * predicts
        cells += [_format_mean_known([r.target_recall for r in mine]), _format_mean(mine, "to_ninety")]
        counts = [_values(mine, m) for m in ("relevant_hosts", "failures", "repeats", "duplicates")]
        rows.append([name, *cells, *(f"{np.mean(c):.1f}" for c in counts)])
    head = [
        "link AUC",
        "calibration error",
        *["link precision"] * predicts,
        "target recall",
        "fetches to 90 %",
        "relevant hosts",
        "failures",
        "repeats",
        "duplicates",
    ]
    return markdown_table(["strategy", *head], rows)


def _format_mean_known(values: Sequence[float | None]) -> str:
    known = [v for v in values if v is not None]
    return f"{np.mean(known):.3f}" if known else "–"


def self_judged_table(runs: Sequence[RunResult]) -> str:
    """Harvest by the crawler's own judge and by the labels, with precision and recall of that judge."""
    rows = []
    for name, mine in group_by_strategy(runs).items():
        judged = [(r.harvest, r.self_judged) for r in mine if r.self_judged is not None]
        if judged:
            precision = [j.precision for _, j in judged if j.precision is not None]
            found = [j.recall for _, j in judged if j.recall is not None]
            means = [np.mean([h for h, _ in judged]), np.mean([j.harvest for _, j in judged])]
            cells = [f"{m:.2f}" for m in means] + [f"{np.mean(v):.2f}" if v else "–" for v in (precision, found)]
            cells += [_format_mean_known([getattr(j, m) for _, j in judged]) for m in ("auc", "calibration_error")]
            rows.append([name, *cells])
    head = ["harvest by label", "self-judged", "judge's precision", "judge's recall", "AUC", "calibration error"]
    return markdown_table(["strategy", *head], rows)


def reliability_table(runs: Sequence[RunResult]) -> str:
    """The judges' reliability: of the pages scored between two tenths, the share that the labels call relevant."""
    rows = []
    for name, mine in group_by_strategy(runs).items():
        bins = [found for run in mine if run.self_judged is not None for found in run.self_judged.reliability]
        if not bins:
            continue
        pages = np.zeros(10)
        relevant = np.zeros(10)
        for found in bins:
            tenth = min(9, int(found.predicted * 10))
            pages[tenth] += found.links
            relevant[tenth] += found.observed * found.links
        cells = [f"{hits / n:.2f} ({n:.0f})" if n else "–" for hits, n in zip(relevant, pages, strict=True)]
        rows.append([name, *cells])
    return markdown_table(["judge's score", *(f".{tenth}" for tenth in range(10))], rows) if rows else ""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def format_interval(i: ConfidenceInterval, digits: int = 3) -> str:
    """Mean and interval. A single case has no interval: resampling it would give one of width 0."""
    mean = f"{i.mean:.{digits}f}"
    return mean if i.n == 1 else f"{mean} [{i.low:.{digits}f}, {i.high:.{digits}f}]"


def time_table(runs: Sequence[RunResult], seed: int = 0) -> str:
    """One row per variant: the time until the last page and the precision (S3-30, S3-31, S3-33)."""
    rows = []
    for name, mine in group_by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        self_harvests = [r.self_judged.harvest for r in mine if r.self_judged is not None]
        own = format_interval(mean_over_cases(mine, self_harvests, rng), 2) if len(self_harvests) == len(mine) else "–"
        rows.append(
            [
                name,
                format_interval(measure_interval(mine, "virtual_s", rng), 1),
                format_interval(mean_over_cases(mine, [r.relevant_per_hour for r in mine], rng), 0),
                format_interval(measure_interval(mine, "harvest", rng), 3),
                own,
                format_interval(measure_interval(mine, "containing", rng), 3),
            ]
        )
    return markdown_table(
        [
            "variant",
            "time, s",
            "relevant pages per hour",
            "precision by label",
            "by its own judge",
            "contains the query",
        ],
        rows,
    )


def saved_table(runs: Sequence[RunResult], reference: str) -> str:
    """One row per variant: fetches, copies, time and CPU time, and what the reference saves of each (S0-09)."""
    names = ("fetched", "duplicates", "relevant_found", "virtual_s", "cpu_s")
    groups = group_by_strategy(runs)
    means = {name: [float(np.mean(_values(mine, measure))) for measure in names] for name, mine in groups.items()}
    rows = []
    for name, found in means.items():
        saved = [
            f" ({1 - own / value:+.0%})" if value else "" for own, value in zip(means[reference], found, strict=True)
        ]
        notes = [""] * len(names) if name == reference else saved
        rows.append([name, *(f"{value:,.1f}{note}" for value, note in zip(found, notes, strict=True))])
    head = ["fetches", "byte-identical copies fetched", "relevant pages found", "time, s", "CPU, s"]
    return markdown_table(["variant", *head], rows) + f"\n\nIn brackets: what `{reference}` saves."


def diversity_table(runs: Sequence[RunResult], seed: int = 0) -> str:
    """One row per variant: precision, spread over hosts and directories, time (S3-36)."""
    rows = []
    measures = (
        ("harvest", 3),
        ("hosts", 1),
        ("relevant_hosts", 1),
        ("host_entropy", 2),
        ("places", 1),
        ("virtual_s", 1),
    )
    for name, mine in group_by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        cost = sum(r.cpu_s for r in mine) / max(1, sum(r.fetched for r in mine))
        cells = [format_interval(measure_interval(mine, measure, rng), digits) for measure, digits in measures]
        rows.append([name, *cells, f"{1000 * cost:.1f}"])
    head = [
        "precision",
        "hosts",
        "hosts with relevant pages",
        "entropy, bits",
        "directories with relevant pages",
        "time, s",
    ]
    return markdown_table(["variant", *head, "CPU ms/page"], rows)


def search_comparison_table(runs: Sequence[RunResult], seed: int = 0) -> str:
    """One row per variant: pages that the crawl found outside the first results (S3-34)."""
    rows = []
    steps: list[list[str]] = []
    for name, mine in group_by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        found = [r.beyond for r in mine if r.beyond is not None]
        if len(found) < len(mine):
            continue
        rows.append([name, *_search_comparison_cells(mine, found, rng)])
        steps.append([name, *(f"{np.mean([b.deeper[at] for b in found]):.2f}" for at in range(10))])
    if not rows:
        return ""
    head = ["relevant among the results", "relevant found by the crawl", "of them not among the results"]
    head += ["hosts of both", "explored deeper"]
    tenths = [f"{10 * step} %" for step in range(1, 11)]
    caption = "Share of the common hosts explored deeper, after each tenth of the crawl:"
    return f"{markdown_table(['variant', *head], rows)}\n\n{caption}\n\n{markdown_table(['variant', *tenths], steps)}"


def _search_comparison_cells(
    runs: Sequence[RunResult], found: Sequence[SearchComparison], rng: np.random.Generator
) -> list[str]:
    means = [
        (mean_over_cases(runs, [b.results_relevant for b in found], rng), 1),
        (measure_interval(runs, "relevant_found", rng), 1),
        (mean_over_cases(runs, [b.new_relevant for b in found], rng), 1),
        (mean_over_cases(runs, [b.common_hosts for b in found], rng), 1),
        (mean_over_cases(runs, [b.deeper[-1] for b in found], rng), 2),
    ]
    return [format_interval(mean, digits) for mean, digits in means]


def halves_table(runs: Sequence[RunResult], reference: str, seed: int = 0) -> str:
    """Per half: one row per web and strategy with its interval, and the paired difference from the reference."""
    parts = []
    for half in (DEVELOPMENT, HELD_OUT):
        mine = [run for run in runs if topic_half(run.topic) == half]
        if mine:
            parts += [f"### {half.capitalize()} topics", _half_table(mine, reference, seed)]
    return "\n\n".join(parts)


def _half_table(runs: Sequence[RunResult], reference: str, seed: int) -> str:
    rows = []
    webs = list(dict.fromkeys(run.web for run in runs))
    for web in (*webs, ""):
        group = [run for run in runs if not web or run.web == web]
        differences = {found.theirs: found for found in paired_comparisons(group, reference)}
        for name, own in group_by_strategy(group).items():
            interval = measure_interval(own, "auc_vs_oracle", np.random.default_rng(seed))
            cells = ["", "", ""]
            if name in differences:
                test = differences[name].test
                cells = [
                    f"{-test.difference:+.3f}", f"{test.losses} : {test.wins}", f"{differences[name].corrected_p:.2g}"
                ]  # fmt: skip
            rows.append([web or "all webs", name, str(len(own)), format_interval(interval), *cells])
    head = ["web", "strategy", "cases", "auc_vs_oracle", f"against {reference}", "better : worse", "p"]
    return markdown_table(head, rows)
