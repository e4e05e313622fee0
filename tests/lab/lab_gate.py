"""The quality gate: what each strategy must reach on two small webs, and the script that pins it.

python tests/lab/lab_gate.py            raises floors and adds missing ones; never lowers one
python tests/lab/lab_gate.py --lower    pins what was measured, lower or not: say why in the commit
"""

import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import tomli_w
import xxhash

from opilio.core.records import FetchResult
from opilio.core.strategies import strategy_names
from opilio.lab.experiments.declarations import Variant
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.store.warc import response_record

FLOORS = Path(__file__).with_name("floors.toml")
MARGIN = 0.01  # below what was measured: another version of a library may turn one link
SHAPE = WebShape(seed=11, pages=300, hosts=12, topics=2, trap_pages=8, seed_sets=1, slow_hosts=0, failing_hosts=0)
MANUALS = Path("/usr/share/doc")
BUDGETS = {"synthetic": 120, "python-manual": 100}
TOPICS = {
    "c-api": ("the C interface of the interpreter: objects, reference counts, modules in C", ["C", "API", "PyObject"]),
    "whatsnew": ("what changed in each release: new features, new modules, porting", ["new", "release", "changes"]),
}
SEEDS = {"c-api": ["c-api/intro.html", "c-api/list.html"], "whatsnew": ["whatsnew/3.5.html", "whatsnew/2.6.html"]}


def synthetic_web(folder: Path) -> Path:
    return write_synthetic_web(SHAPE, folder / "synthetic")


def manual_folder() -> Path | None:
    """Python's manual as Debian's python3-doc installs it, the newest; None where it is not installed."""
    found = sorted(p.parent for p in MANUALS.glob("python3.*/html/index.html"))
    return found[-1] if found else None


def manual_web(folder: Path) -> Path:
    """The manual as a web: a page's label is its part of the manual."""
    root, web = manual_folder(), folder / "python-manual"
    assert root is not None
    web.mkdir(parents=True)
    pages = sorted(p for p in root.rglob("*.html") if not p.name.startswith(("genindex", "search")))
    names = [p.relative_to(root).as_posix() for p in pages]
    header = (("Content-Type", "text/html; charset=utf-8"),)
    records = [
        response_record(FetchResult(url=_url(name), status=200, headers=header, body=path.read_bytes()))
        for name, path in zip(names, pages, strict=True)
    ]
    (web / "web.warc.gz").write_bytes(b"".join(records))
    (web / "labels.tsv").write_text("".join(f"{_url(n)}\t{n.split('/')[0] if '/' in n else '_top'}\n" for n in names))
    tables = [_topic(name, *reply) for name, reply in TOPICS.items()]
    (web / "topics.toml").write_text(tomli_w.dumps({"topic": tables}))
    return web


def _url(name: str) -> str:
    return f"http://manual.example/{name}"


def _topic(name: str, description: str, keywords: list[str]) -> dict[str, object]:
    own = {"name": "on-topic-1", "urls": [_url(seed) for seed in SEEDS[name]]}
    away = {"name": "generic-1", "urls": [_url("tutorial/classes.html"), _url("library/json.html")]}
    return {"name": name, "description": description, "keywords": keywords, "relevant": [name], "seeds": [own, away]}


MAKERS: dict[str, Callable[[Path], Path]] = {"synthetic": synthetic_web, "python-manual": manual_web}


def opened(name: str, folder: Path) -> ExperimentRunner:
    return ExperimentRunner.open(MAKERS[name](folder), folder / "cache", processes=1)


def corpus_hash(arena: ExperimentRunner) -> str:
    """Names what the floors were measured on: addresses and bodies, however they are packed."""
    digest = xxhash.xxh3_64()
    web = arena.offline.web
    for number, url in enumerate(web.urls):
        digest.update(url.encode())
        digest.update(web.response(number).body)
    return digest.hexdigest()


def reached(arena: ExperimentRunner, strategy: str, budget: int) -> float:
    """Mean auc_vs_oracle over all topics and seed sets of a web."""
    folder = str(arena.offline.web.folder)
    found = [
        arena.run(
            ExperimentJob(
                experiment="gate",
                folder=folder,
                topic=topic.name,
                seed_set=seeds.name,
                variant=Variant(name=strategy),
                budget=budget,
            )
        ).auc_vs_oracle
        for topic in arena.topics.values()
        for seeds in topic.seed_sets
    ]
    return sum(found) / len(found)


def pinned() -> dict[str, dict[str, object]]:
    return tomllib.loads(FLOORS.read_text("utf-8")) if FLOORS.exists() else {}


def main(arguments: Sequence[str]) -> None:
    floors = pinned()
    for name in MAKERS:
        if name == "python-manual" and manual_folder() is None:
            sys.stderr.write(f"{name}: not installed (Debian: python3-doc); its floors stay as they are\n")
            continue
        with tempfile.TemporaryDirectory() as folder:
            arena = opened(name, Path(folder))
            floors[name] = _floors(arena, name, floors.get(name, {}), lower="--lower" in arguments)
    FLOORS.write_text(
        "# Floors of auc_vs_oracle; made by tests/lab/lab_gate.py, which says how to change them.\n"
        + tomli_w.dumps(floors),
        "utf-8",
    )


def _floors(arena: ExperimentRunner, name: str, old: dict[str, object], *, lower: bool) -> dict[str, object]:
    corpus = corpus_hash(arena)
    same = old.get("corpus") == corpus
    result: dict[str, object] = {"corpus": corpus}
    for strategy in strategy_names():
        floor = round(max(0.0, reached(arena, strategy, BUDGETS[name]) - MARGIN), 3)
        before = old.get(strategy, 0.0) if same and not lower else 0.0
        assert isinstance(before, float)
        result[strategy] = max(floor, before)
        sys.stderr.write(f"{name} {strategy}: {result[strategy]:.3f}\n")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
