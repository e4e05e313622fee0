"""The registered benchmark: webs from manuals, the digest of a declaration, halves, the perfect judge."""

from pathlib import Path

import msgspec
import pytest

from opilio.core.errors import OfflineWebError
from opilio.lab.experiments.declarations import Variant, load_experiment, registration_digest, topic_half
from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner
from opilio.lab.experiments.study import Study, StudyOptions
from opilio.lab.reports.tables import halves_table
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.manuals import Manual, ManualTopic, ManualWeb, manual_webs, open_manual_webs, write_manual_web
from opilio.lab.webs.web import WarcWeb

TOPIC = ManualTopic("storage", "How data is stored on disks", ("disk",), ("storage",))
LINKS = "".join(f'<a href="page{n}.html">page {n}</a>' for n in range(6))


def write_page(path: Path, head: str = "", text: str = "text") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<html><head>{head}</head><body>{LINKS} {text}</body></html>")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A manual whose chapters are stated by links to the page above."""
    root = tmp_path / "doc" / "manual" / "html"
    write_page(root / "index.html")
    write_page(root / "storage.html", '<link rel="up" href="index.html">')
    for number in range(6):
        write_page(root / f"page{number}.html", '<link rel="up" href="storage.html">')
    for number in range(6):
        write_page(root / f"other{number}.html", '<link rel="up" href="index.html">')
    write_page(root / "moved.html", '<meta http-equiv="Refresh" content="0; url=page1.html">')
    return tmp_path / "doc"


def manual_web(**more: object) -> ManualWeb:
    manual = Manual("manual-doc", "manual/html", "manual.example", "up")
    return msgspec.structs.replace(ManualWeb("manual", (manual,), (TOPIC,)), **more)


def test_manual_web_takes_labels_from_the_chapters(documents: Path, tmp_path: Path) -> None:
    folder = write_manual_web(manual_web(), tmp_path / "web", documents)
    web = WarcWeb.open(folder, tmp_path / "cache")
    labels = dict(zip(web.urls, load_labels(web).by_page, strict=True))
    assert labels["http://manual.example/page1.html"] == ("storage.page1",)
    assert labels["http://manual.example/index.html"] == ("_top",)
    assert "http://manual.example/moved.html" not in labels


def test_manual_web_is_the_same_when_written_again(documents: Path, tmp_path: Path) -> None:
    first, second = (write_manual_web(manual_web(), tmp_path / name, documents) for name in ("one", "two"))
    for name in ("labels.tsv", "topics.toml"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_opaque_names_keep_links_and_labels(documents: Path, tmp_path: Path) -> None:
    manual = msgspec.structs.replace(manual_web().manual[0], opaque=True)
    folder = write_manual_web(manual_web(manual=(manual,)), tmp_path / "web", documents)
    runner = ExperimentRunner.open(folder, tmp_path / "cache", processes=1)
    web, pages = runner.offline.web, runner.offline.pages
    assert not any("page" in url or "storage" in url for url in web.urls)
    assert sorted(runner.labels.by_page).count(("storage.page1",)) == 1
    # Of the six links of a page, all lead to pages of the web.
    first = web.number_of("http://manual.example/index.html")
    assert first is not None
    assert all(number < len(web) for number in pages.graph.out_links(first).tolist())


def test_web_in_several_languages_is_one_web_each() -> None:
    manual = Manual("manual-doc", "manual/{locale}/{language}", "manual.example", "up")
    german, french = manual_web(manual=(manual,), languages={"de": "de-DE", "fr": "fr-FR"}).in_each_language()
    assert (german.name, french.name) == ("manual-de", "manual-fr")
    assert [web.manual[0].folder for web in (german, french)] == ["manual/de-DE/de", "manual/fr-FR/fr"]
    assert german.topic == french.topic == (TOPIC,)


def test_generic_seeds_start_at_the_portal(documents: Path, tmp_path: Path) -> None:
    folder = write_manual_web(manual_web(portal="portal.example"), tmp_path / "web", documents)
    runner = ExperimentRunner.open(folder, tmp_path / "cache", processes=1)
    assert "http://portal.example/" in runner.seed_set(runner.topics["storage"], "generic-1").urls


def test_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(OfflineWebError, match="manual-doc"):
        write_manual_web(manual_web(), tmp_path / "web", tmp_path)
    folders, problems = open_manual_webs(["postgresql"], tmp_path)
    assert not folders
    assert "postgresql-doc-15" in str(problems[0])


def test_benchmark_declares_known_manuals_and_both_halves() -> None:
    declared, webs = load_experiment("benchmark"), manual_webs()
    halves = {topic_half(topic.name) for name in declared.manuals for topic in webs[name].topic}
    assert halves == {"development", "held-out"}


def test_digest_changes_with_the_declaration_and_options_remove_it() -> None:
    declared = load_experiment("benchmark")
    changed = msgspec.structs.replace(declared, budget=declared.budget + 1)
    assert registration_digest(declared) != registration_digest(changed)
    webs = (Path("web"),)
    assert Study(declared, StudyOptions(webs=webs)).registration == registration_digest(declared)
    assert Study(declared, StudyOptions(webs=webs, pages=5)).registration == ""


def test_halves_are_reported_apart_with_the_difference() -> None:
    def run(topic: str, strategy: str, value: float) -> RunResult:
        return RunResult(
            experiment="x", web="w", topic=topic, strategy=strategy, seed_set="s", random_seed=0, budget=1, fetched=1,
            relevant_found=1, relevant_reachable=1, harvest=0.0, recall=0.0, auc_vs_oracle=value, curve=(),
        )  # fmt: skip

    runs = [
        run("railways", "a", 0.5),
        run("railways", "b", 0.75),
        run("medicine", "a", 0.5),
        run("medicine", "b", 0.25),
    ]
    development, _, held_out = halves_table(runs, "b").partition("### Held-out topics")
    assert "-0.250" in development
    assert "+0.250" in held_out


def test_perfect_judge_uses_the_labels(small_folder: Path, lab_cache: Path) -> None:
    runner = ExperimentRunner.open(small_folder, lab_cache, processes=1)
    topic = next(iter(runner.topics.values()))
    job = ExperimentJob(
        experiment="x", topic=topic.name, seed_set=topic.seed_sets[0].name, budget=40,
        variant=Variant(name="perfect", strategy="best-first", perfect_judge=True),
    )  # fmt: skip
    judged = runner.run(job).self_judged
    assert judged is not None
    assert (judged.precision, judged.recall, judged.auc) == (1.0, 1.0, 1.0)
    assert sum(found.links for found in judged.reliability) > 0
