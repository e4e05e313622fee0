"""Tables over topics × seed sets, with intervals and paired tests. Pure.

A case (web, topic, seed set) is the unit of both: repeats of it with other random seeds are averaged first, since they
are no new evidence (where chance decides nothing in a crawl they are copies).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from opilio.lab.results import Run
from opilio.lab.statistics import Interval, PairedTest, bootstrap_mean, holm, paired_test

Case = tuple[str, str, str]


class Pairing(NamedTuple):
    """Two strategies over the cases they share."""

    ours: str
    theirs: str
    test: PairedTest
    corrected_p: float


def by_strategy(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs grouped by strategy, strategies in the order they first appear."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.strategy, []).append(run)
    return groups


def interval(runs: Sequence[Run], measure: str, rng: np.random.Generator) -> Interval:
    """Mean of one measure with its interval."""
    return mean_over_cases(runs, _values(runs, measure), rng)


def mean_over_cases(runs: Sequence[Run], values: Sequence[float], rng: np.random.Generator) -> Interval:
    """Mean of one value a run with its interval: topics are drawn first, then cases within them."""
    cases = _case_means(runs, values)
    return bootstrap_mean(list(cases.values()), rng, groups=[case[:2] for case in cases])


def by_case(runs: Sequence[Run]) -> dict[Case, list[int]]:
    """The places of the runs of each case, cases in the order they first appear."""
    places: dict[Case, list[int]] = {}
    for at, run in enumerate(runs):
        places.setdefault((run.web, run.topic, run.seed_set), []).append(at)
    return places


def pairings(runs: Sequence[Run], reference: str, measure: str = "auc_vs_oracle") -> list[Pairing]:
    """The reference strategy against every other, over the same topics and seed sets."""
    groups = {name: _case_means(mine, _values(mine, measure)) for name, mine in by_strategy(runs).items()}
    mine = groups.get(reference, {})
    tests: list[tuple[str, PairedTest]] = []
    for other, theirs in groups.items():
        shared = sorted(mine.keys() & theirs.keys())
        if other != reference and shared:
            tests.append((other, paired_test([mine[c] for c in shared], [theirs[c] for c in shared])))
    corrected = holm([t.p_value for _, t in tests])
    return [Pairing(reference, other, t, p) for (other, t), p in zip(tests, corrected, strict=True)]


def _values(runs: Sequence[Run], measure: str) -> list[float]:
    return [float(getattr(run, measure)) for run in runs]


def _case_means(runs: Sequence[Run], values: Sequence[float]) -> dict[Case, float]:
    return {case: float(np.mean([values[at] for at in places])) for case, places in by_case(runs).items()}


def strategy_table(runs: Sequence[Run], seed: int = 0) -> str:
    """One line a strategy: means with 95 % intervals."""
    rows = []
    for name, mine in by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        cells = [spread(interval(mine, m, rng)) for m in ("auc_vs_oracle", "harvest", "recall")]
        cost = sum(r.cpu_s for r in mine) / max(1, sum(r.fetched for r in mine))
        rows.append([name, str(len(mine)), *cells, _mean_of(mine, "to_half"), f"{1000 * cost:.1f}"])
    head = ["strategy", "runs", "auc_vs_oracle", "harvest", "recall", "fetches to 50 %", "CPU ms/page"]
    return markdown(head, rows)


def _mean_of(runs: Sequence[Run], measure: str) -> str:
    values = [getattr(r, measure) for r in runs]
    reached = [v for v in values if v is not None]
    if not reached:
        return "never"
    note = "" if len(reached) == len(values) else f" ({len(reached)} of {len(values)} runs)"
    return f"{sum(reached) / len(reached):.0f}{note}"


def pairing_table(found: Sequence[Pairing]) -> str:
    """Who wins against whom: mean difference, p (Wilcoxon, Holm-corrected), effect size."""
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
    return markdown(["difference in auc_vs_oracle", "mean", "wins : losses", "p", "rank-biserial"], rows)


def topic_table(runs: Sequence[Run], measure: str = "auc_vs_oracle") -> str:
    """One line a topic, one column a strategy."""
    groups = by_strategy(runs)
    topics = list(dict.fromkeys(r.topic for r in runs))
    rows = []
    for topic in topics:
        means = [[float(getattr(r, measure)) for r in mine if r.topic == topic] for mine in groups.values()]
        rows.append([topic, *(f"{np.mean(m):.3f}" if m else "–" for m in means)])
    return markdown(["topic", *groups], rows)


def seed_table(runs: Sequence[Run], measure: str = "auc_vs_oracle") -> str:
    """One line a kind of seed set, one column a strategy: beginning on the topic or away from it."""
    groups = by_strategy(runs)
    kinds = list(dict.fromkeys(seed_kind(r.seed_set) for r in runs))
    rows = []
    for kind in kinds:
        means = [
            [float(getattr(r, measure)) for r in mine if seed_kind(r.seed_set) == kind] for mine in groups.values()
        ]
        rows.append([kind, *(f"{np.mean(m):.3f}" if m else "–" for m in means)])
    return markdown(["seeds", *groups], rows)


def by_seeds(runs: Iterable[Run]) -> list[Run]:
    """Runs named as in S2-40: T1 is variant 1 from on-topic seeds, G1 the same from generic ones."""
    letters = {"on-topic": "T", "generic": "G"}
    named = [replace(run, strategy=letters.get(seed_kind(run.seed_set), "") + run.strategy) for run in runs]
    return sorted(named, key=lambda run: (run.strategy[0] != "T", run.strategy))


def seed_kind(name: str) -> str:
    """`on-topic-2` is one of the kind `on-topic`."""
    return name.rstrip("0123456789").rstrip("-") or name


def parts_table(runs: Sequence[Run]) -> str:
    """The parts apart (S2-49): the ranker's order of what was fetched, what else the crawl met and cost."""
    rows = []
    for name, mine in by_strategy(runs).items():
        links = [r.links for r in mine if r.links is not None]
        cells = [_mean_known([x.auc for x in links]), _mean_known([x.calibration_error for x in links])]
        cells += [_mean_known([r.target_recall for r in mine]), _mean_of(mine, "to_ninety")]
        counts = [_values(mine, m) for m in ("relevant_hosts", "failures", "repeats", "duplicates")]
        rows.append([name, *cells, *(f"{np.mean(c):.1f}" for c in counts)])
    head = [
        "link AUC",
        "calibration error",
        "target recall",
        "fetches to 90 %",
        "relevant hosts",
        "failures",
        "repeats",
        "duplicates",
    ]
    return markdown(["strategy", *head], rows)


def _mean_known(values: Sequence[float | None]) -> str:
    known = [v for v in values if v is not None]
    return f"{np.mean(known):.3f}" if known else "–"


def self_judged_table(runs: Sequence[Run]) -> str:
    """Harvest by the crawler's own judge beside harvest by the labels, and how good that judge was."""
    rows = []
    for name, mine in by_strategy(runs).items():
        judged = [(r.harvest, r.self_judged) for r in mine if r.self_judged is not None]
        if judged:
            precision = [j.precision for _, j in judged if j.precision is not None]
            found = [j.recall for _, j in judged if j.recall is not None]
            means = [np.mean([h for h, _ in judged]), np.mean([j.harvest for _, j in judged])]
            cells = [f"{m:.2f}" for m in means] + [f"{np.mean(v):.2f}" if v else "–" for v in (precision, found)]
            rows.append([name, *cells])
    return markdown(["strategy", "harvest by label", "self-judged", "judge's precision", "judge's recall"], rows)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def spread(i: Interval, digits: int = 3) -> str:
    """Mean and interval. One case has none: drawing it again and again would show one of no width."""
    mean = f"{i.mean:.{digits}f}"
    return mean if i.n == 1 else f"{mean} [{i.low:.{digits}f}, {i.high:.{digits}f}]"
