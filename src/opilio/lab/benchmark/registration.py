"""The registration of an experiment: what is fixed before it runs, as one digest, and the webs that it names.

Topics are split into two halves by a hash of their name. Defaults are chosen on the development half only; the held-out
half confirms them.
"""

import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from opilio.lab.benchmark.manuals import DOCUMENTS, manual_webs, write_manual_web
from opilio.lab.experiments.declarations import Experiment
from opilio.lab.experiments.results import RunResult
from opilio.lab.reports.tables import (
    format_interval,
    group_by_strategy,
    markdown_table,
    measure_interval,
    paired_comparisons,
)
from opilio.lab.webs.cache import default_cache_folder
from opilio.lab.webs.web import LabProblem

DEVELOPMENT, HELD_OUT = "development", "held-out"


def registration_digest(experiment: Experiment) -> str:
    """A digest of the declaration and of the manuals' declaration: any change gives another one."""
    digest = xxhash.xxh3_64(msgspec.json.encode(experiment, order="sorted"))
    if experiment.manuals:
        digest.update((files("opilio.lab.benchmark") / "manuals.toml").read_bytes())
    return digest.hexdigest()


def topic_half(topic: str) -> str:
    """The half that a topic belongs to.

    >>> topic_half("railways"), topic_half("medicine")
    ('development', 'held-out')
    """
    return HELD_OUT if zlib.crc32(topic.encode()) % 2 else DEVELOPMENT


def open_manual_webs(names: Sequence[str], documents: Path = DOCUMENTS) -> tuple[list[Path], list[LabProblem]]:
    """The folders of these webs, written to the cache where they are missing, and those that can't be made."""
    declared, found, problems = manual_webs(), [], []
    for name in names:
        web = declared[name]
        missing = web.missing_packages(documents)
        if missing:
            problems.append(LabProblem("web", name, f"not installed: {' '.join(missing)}; skipped"))
            continue
        digest = xxhash.xxh3_64(msgspec.json.encode(web))
        for manual in web.manual:
            index = documents / manual.folder / "index.html"
            digest.update(index.read_bytes() if index.is_file() else manual.package.encode())
        folder = default_cache_folder() / "manuals" / digest.hexdigest() / name
        # Written last.
        if not (folder / "topics.toml").is_file():
            write_manual_web(web, folder, documents)
        found.append(folder)
    return found, problems


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
