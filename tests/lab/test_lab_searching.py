"""A search engine over an offline web, experiments that begin at its results, and S3's tables."""

import random
import re
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from opilio.core.settings import FrontierSettings
from opilio.engine.wiring.topic import build_topic, initial_topic_state, read_query_log
from opilio.lab.experiments.declarations import Variant, load_experiment
from opilio.lab.experiments.preparation import CrawlPreparation
from opilio.lab.experiments.replay import lab_settings, replay_crawl
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner
from opilio.lab.experiments.search_engine import OfflineSeedSource, draw_query
from opilio.lab.experiments.study import Study, StudyOptions, run_jobs
from opilio.lab.reports.report import classifier_table, draw_classifiers
from opilio.lab.reports.tables import diversity_table, run_indices_by_case, search_comparison_table, time_table
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import TopicBrief
from opilio.lab.webs.web import WarcWeb
from opilio.text.tokens import tokenize
from opilio.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def arena(small_folder: Path, lab_cache: Path) -> ExperimentRunner:
    return ExperimentRunner.open(small_folder, lab_cache, processes=1)


def test_search_finds_pages_of_the_topic_first(arena: ExperimentRunner) -> None:
    topic = next(iter(arena.topics.values()))
    relevant = arena.labels.relevant(topic)
    numbers = [arena.offline.web.number_of(url) for url in arena.search.search(topic.brief, 10)]
    assert sum(bool(relevant[n]) for n in numbers if n is not None) >= 8


def test_search_finds_nothing_for_unused_words(arena: ExperimentRunner) -> None:
    assert arena.search.search(TopicBrief(name="xyzzy plugh"), 10) == []


def test_search_may_know_a_share_of_the_web_s3_34(arena: ExperimentRunner) -> None:
    brief = next(iter(arena.topics.values())).brief
    everything = arena.search.search(brief, 500)
    known = arena.search.search(brief, 500, coverage=0.5)
    assert 0.3 < len(known) / len(everything) < 0.7
    assert known == [url for url in everything if url in set(known)]


def test_search_knows_genres_by_their_hosts_s3_36(tmp_path: Path, lab_cache: Path) -> None:
    shape = WebShape(pages=120, hosts=12, topics=1, about=("jaguar",), genres=0.5, traps=(), seed_sets=1)
    genres = ExperimentRunner.open(write_synthetic_web(shape, tmp_path / "genres"), lab_cache, processes=1)
    brief = genres.topics["jaguar"].brief
    news = genres.search.search(brief, 500, "news")
    assert news and all(url.startswith("http://news.") for url in news)
    assert genres.search.seeds(brief, "search-news-3") == news[:3]
    mixed = genres.search.seeds(brief, "search-genres-9")
    kinds = Counter(url.partition("://")[2].partition(".")[0] for url in mixed)
    assert len(mixed) == 9 and kinds["forum"] >= 3 and kinds["news"] >= 3
    wanted = genres.topics["jaguar news"].brief  # S3-37: seeds of the genre that the topic wants
    assert genres.search.seeds(wanted, "search-wanted-3") == genres.search.search(wanted, 3, "news")


def test_seeds_are_what_any_or_all_of_three_engines_name_s0_31_s4_24(arena: ExperimentRunner) -> None:
    """S0 orders them by the number of engines that name them, S4 takes those that all name."""
    brief = next(iter(arena.topics.values())).brief
    asked = arena.search.ask_engines(brief, 12, 0.8)
    votes = Counter(url for urls in asked for url in urls)
    assert set(votes.values()) == {1, 2, 3}
    ordered = arena.search.seeds(brief, "search-any-6", 0.8)
    assert len(ordered) == 6
    assert [votes[url] for url in ordered] == sorted(votes.values(), reverse=True)[:6]
    agreed = arena.search.seeds(brief, "search-all-6", 0.8)
    assert agreed and set(agreed) <= {url for url in votes if votes[url] == 3}
    assert arena.search.seeds(brief, "search-all-6", 0.8, engine=1) != agreed


def test_executions_ask_other_engines_and_are_cases_of_their_own_s3_32(arena: ExperimentRunner) -> None:
    def job(seed: int, coverage: float) -> ExperimentJob:
        return ExperimentJob(
            experiment="e", topic=next(iter(arena.topics)), seed_set="search-6", variant=Variant(name="breadth"),
            budget=10, random_seed=seed, coverage=coverage,
        )  # fmt: skip

    runs = [arena.run(job(seed, 0.5)) for seed in (0, 1)]
    assert [run.seed_set for run in runs] == ["search-6-of-engine-0", "search-6-of-engine-1"]
    assert len(run_indices_by_case(runs)) == 2
    topic = arena.topics[job(0, 0.5).topic]
    seeds = [set(arena.seed_set(topic, "search-6", 0.5, engine).urls) for engine in (0, 1)]
    assert seeds[0] != seeds[1]
    assert job(1, 1.0).case_name == "search-6"


def test_logged_queries_are_words_of_titles_with_noise_s4_24(arena: ExperimentRunner) -> None:
    brief = next(iter(arena.topics.values())).brief
    queries = arena.search.logged_queries(brief, 200)
    assert queries == arena.search.logged_queries(brief, 200)
    words = Counter(word for query in queries for word in query.split())
    own = set(" ".join((brief.name, *brief.keywords)).split())
    assert 0 < sum(words[word] for word in own) < 0.3 * words.total()
    assert all(len(query.split()) <= 4 for query in queries)
    titles = {word for title in arena.search.titles.values() for word in tokenize(title)}
    assert 0.9 < sum(words[word] for word in words.keys() & titles) / words.total() < 1.0  # some have typing errors


def test_three_of_ten_queries_are_about_anything_else_s4_24() -> None:
    rng = random.Random(1)
    drawn = [draw_query([["wren", "nest"]], [["tax", "law"]], rng) for _ in range(1000)]
    assert sum(query.startswith(("t", "a", "l")) for query in drawn) == pytest.approx(300, abs=40)


def test_table_follows_the_log_of_the_search_engine_s4_24(arena: ExperimentRunner) -> None:
    brief = next(iter(arena.topics.values())).brief
    prepared = CrawlPreparation(arena.offline, arena.search)
    tree = prepared.settings(Variant(name="s4-dynamic", queries=20), brief, 150)
    settings = lab_settings("s4-dynamic", brief, (), 10, tree)
    assert initial_topic_state(settings, build_topic(settings))
    assert 55 <= len(read_query_log(Path(tree["expansion"]["log"]))) <= 60
    table = prepared.settings(Variant(name="s0", table_pages=20), brief, 150)["topic"]["keywords"]
    assert len(table) > 50


def test_classifiers_are_trained_on_seed_lists_before_the_crawl_s1_13_s1_17_s1_30(
    arena: ExperimentRunner, tmp_path: Path
) -> None:
    """Labels are the lists that pages come from; the seven words are built from those pages."""
    topic = next(iter(arena.topics.values()))
    training = arena.preparation.training
    relevant, irrelevant = training.seed_lists(topic.brief, 15)
    assert len(relevant) == len(irrelevant) == 15 and not set(relevant) & set(irrelevant)
    truth = arena.labels.relevant(topic)
    hits = [sum(bool(truth[arena.offline.web.numbers[url]]) for url in urls) for urls in (relevant, irrelevant)]
    assert hits[0] >= 10 and hits[1] <= 3
    pages = training.training_set(topic.brief, 15)
    assert pages.labels.tolist() == [False] * 15 + [True] * 15
    table = pages.table(np.arange(len(pages)))
    assert len(table) == 7
    rows = pages.rows(table)
    assert sum(not row.missing[2] for row in rows) > 20  # the parents are known
    model = training.model_file(topic.brief, 15)
    settings = lab_settings("s1-bayes", topic.brief, relevant[:3], 15, {"rank": {"model": str(model)}})
    assert len(replay_crawl(arena.offline, settings).fetches) == 15
    compared = {topic.name: training.compare(topic.brief, 15)}
    assert classifier_table(compared).count("0.501") == 1
    assert draw_classifiers(compared, tmp_path) == [
        "figure-6-precision", "figure-7-time", "figure-8-complexity"
    ]  # fmt: skip
    assert (tmp_path / "figure-7-time.svg").stat().st_size > 1000


def test_search_does_not_need_labels(arena: ExperimentRunner, small_folder: Path, lab_cache: Path) -> None:
    """Isolation: the engine is made from pages alone."""
    from opilio.lab.experiments.replay import OfflineWeb
    from opilio.lab.experiments.search_engine import OfflineSearchEngine as SearchEngine

    web = WarcWeb.open(small_folder, lab_cache)
    alone = SearchEngine(OfflineWeb(web, ParsedPages.open(web, lab_cache, processes=1)))
    brief = next(iter(arena.topics.values())).brief
    assert alone.search(brief, 20) == arena.search.search(brief, 20)


def test_index_of_the_cache_gives_the_results_of_a_new_one(arena: ExperimentRunner, lab_cache: Path) -> None:
    """Every process of an experiment needs the index; only the first one builds it."""
    from opilio.lab.experiments.search_engine import OfflineSearchEngine as SearchEngine

    brief = next(iter(arena.topics.values())).brief
    found, titles = arena.search.search(brief, 50), dict(arena.search.titles)
    (stored,) = arena.offline.pages.folder.glob("read-*/search-*")
    again = SearchEngine(arena.offline)
    assert again.search(brief, 50) == found
    assert again.titles == titles
    stored.write_bytes(b"damaged")
    built = SearchEngine(arena.offline)
    assert built.search(brief, 50) == found and len(found) > 10
    assert stored.stat().st_size > 10_000


@pytest.mark.parametrize("name", ["s3-33", "s3-34", "s3-36"])
def test_experiment_begins_at_the_results_of_a_search(name: str, small_folder: Path) -> None:
    declared = load_experiment(name)
    choice = StudyOptions(webs=(small_folder,), variants=declared.variants[-2:], pages=12)
    jobs = Study(declared, choice).jobs()
    assert {job.seed_set for job in jobs} == set(declared.seed_kinds)
    assert {job.latency_s for job in jobs} == {declared.latency_s}


def test_seeds_that_no_engine_names_are_crawled_once_where_executions_differ_by_engine(small_folder: Path) -> None:
    declared = load_experiment("s1-30")
    for draws, of_generic in ((declared.executions, 1), (declared.executions + 1, declared.executions + 1)):
        choice = StudyOptions(webs=(small_folder,), variants=declared.variants[:1], random_seeds=draws, seed_sets=1)
        found = Counter(job.seed_set for job in Study(declared, choice).jobs() if job.variant.name == "mean")
        assert found == {"search-10": draws, "generic-1": of_generic}


def test_share_of_pages_that_contain_the_query_is_printed_s3_30(arena: ExperimentRunner) -> None:
    topic, web, vocabulary = next(iter(arena.topics.values())), arena.offline.web, Vocabulary()
    query = topic.brief.keywords[0]
    answers = {url: web.response(number) for number, url in enumerate(web.urls)}
    words = {
        url: vocabulary.terms(re.sub(r"<[^>]*>", " ", answer.body.decode()))
        for url, answer in answers.items()
        if answer.status == 200
    }
    having = {url for url, terms in words.items() if set(vocabulary.terms(query)) <= set(terms)}
    assert 5 < len(having) < len(words) / 2
    assert arena.search.containing(query) == having
    variant = Variant(name="breadth")
    run = arena.run(ExperimentJob(experiment="e", topic=topic.name, seed_set="search-6", variant=variant, budget=40))
    assert 0.0 < run.containing < 1.0
    head, _, line = time_table([run]).splitlines()
    assert head.endswith("| contains the query |") and line.endswith(f"| {run.containing:.3f} |")


def test_tables_of_s3_have_a_line_for_each_variant(arena: ExperimentRunner) -> None:
    """S3-33, S3-34, S3-36: more requests at once take less time and fetch as many pages."""
    topic = next(iter(arena.topics))
    variants = [
        Variant(
            name=f"r = {r}",
            strategy="s3-agents",
            set={"agents": {"count": 1, "requests": r}, "engine": {"connections": r}},
        )
        for r in (1, 4)
    ]
    jobs = [
        ExperimentJob(
            experiment="s3-33", folder="", topic=topic, seed_set="search-6", variant=v, budget=30, latency_s=1.0
        )
        for v in variants
    ]
    runs = [arena.run(job) for job in jobs]
    assert [run.fetched for run in runs] == [30, 30]
    assert runs[1].virtual_s < runs[0].virtual_s / 2
    assert runs[0].relevant_per_hour == 3600.0 * runs[0].relevant_found / runs[0].virtual_s
    assert all(run.beyond is not None and len(run.beyond.deeper) == 10 for run in runs)
    for table in (time_table(runs), diversity_table(runs), search_comparison_table(runs)):
        assert "| r = 1 |" in table
        assert "| r = 4 |" in table


def test_study_of_agents_is_carried_out_the_same_twice(small_folder: Path) -> None:
    declared = load_experiment("s3-36")
    choice = StudyOptions(webs=(small_folder,), variants=declared.variants[2:3], pages=20)
    first, second = (run_jobs(Study(declared, choice).jobs()[:1], 1, lambda *_: None) for _ in range(2))
    assert [run.curve for run in first] == [run.curve for run in second]


def test_crawl_that_runs_dry_asks_the_engine_and_is_the_same_again(arena: ExperimentRunner) -> None:
    """From a page whose links are not followed: only the engine leads on. Deterministic, as everything in a replay."""
    topic = next(iter(arena.topics.values()))
    asking: dict[str, object] = {"seeds": {"limit": 5, "queries": 4, "engines": {"search": {"kind": "mediawiki"}}}}

    def urls(more: dict[str, object]) -> list[str]:
        settings = lab_settings("breadth", topic.brief, topic.seed_sets[0].urls[:1], 60, more)
        settings = msgspec.structs.replace(settings, frontier=FrontierSettings(max_depth=1, per_host=1))
        sources = [OfflineSeedSource(name, arena.search) for name in settings.seeds.engines]
        return [fetch.url for fetch in replay_crawl(arena.offline, settings, sources=sources).fetches]

    alone, asked = urls({}), urls(asking)
    assert asked[: len(alone)] == alone
    assert len(asked) > len(alone)
    assert urls(asking) == asked


@pytest.mark.slow
def test_judge_accepts_few_irrelevant_pages_without_filler_s3_e8(tmp_path: Path, lab_cache: Path) -> None:
    shape = WebShape(pages=600, topics=3, seed=21)
    runner = ExperimentRunner.open(write_synthetic_web(shape, tmp_path / "web"), lab_cache, processes=1)
    for strategy in ("s3-tswt", "s4-static"):
        for topic in runner.topics:
            job = ExperimentJob(
                experiment="e", topic=topic, seed_set="on-topic-1", variant=Variant(name=strategy), budget=140
            )
            judged = runner.run(job).self_judged
            assert judged is not None and judged.precision is not None and judged.recall is not None
            assert judged.precision > 0.9 and judged.recall > 0.9
