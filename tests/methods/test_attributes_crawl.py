"""S1's parts as a crawl uses them: options, the file to begin from, and queued links classified again (S1-14)."""

import asyncio
import importlib.util
from pathlib import Path

import msgspec
import numpy as np
import pytest

from checks.learner_checks import some_rows
from checks.scored_links import scored_links
from opilio.api.crawl_session import open_crawl
from opilio.core.errors import ConfigError, MissingExtraError
from opilio.core.records import Analysis, Failure, FetchResult, LinkColumns, Outcome, url_key
from opilio.core.settings import Settings
from opilio.engine.wiring.assembly import build_analysis_parts
from opilio.engine.wiring.session import create_crawl
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.topic import build_topic, initial_topic_state
from opilio.learn.word_model import DENSE_FIELDS, unpack_features
from opilio.methods.attributes.features import LinkRows, TermFunctions, pack_evidence, page_evidence
from opilio.methods.attributes.learner import LEARNER_NAMES, OnlineTrainer, make_learner
from opilio.methods.attributes.ranker import MODEL_FILE, AttributesLinkScorer, AttributesRanker
from opilio.methods.attributes.ranker import unpack_rows as rows_in
from opilio.methods.attributes.training import write_models
from opilio.rank.link_scores import pack
from opilio.testing.conformance import lead_to, reading_of, verdict_of
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import flat_idf
from opilio.topic.setup import resolve_settings
from opilio.topic.weights import table_from_weights

pytest.importorskip("sklearn")
NOTHING = np.zeros(0, dtype=np.uint32), np.zeros(0)
URLS = ["http://x.example/a", "http://x.example/b"]


def s1_ranker() -> AttributesRanker:
    teacher = OnlineTrainer(make_learner("bayes"), every=1, least=1)
    words = TermFunctions(lambda urls: [[] for _ in urls], lambda _: NOTHING, flat_idf)
    return AttributesRanker(LinkRows(EvolvingTopic(table_from_weights({"wren": 1.0})), words), teacher)


def page_with(
    features: list[bytes], scores: list[float], url: str = "http://x.example/", urls: list[str] = URLS
) -> Outcome:
    columns = LinkColumns(
        urls=urls,
        hosts=["x.example"] * len(urls),
        anchors=[""] * len(urls),
        keys=np.array([url_key(u) for u in urls], dtype=np.int64).tobytes(),
        scores=np.array(scores, dtype=np.float32).tobytes(),
        names=[],
        parts=b"",
        dropped={},
        features=features,
    )
    return Outcome(
        lead=lead_to(url), fetched=FetchResult(url=url), analysis=Analysis(verdict=verdict_of(0.5), links=pack(columns))
    )


def said_of(*anchors: str) -> list[bytes]:
    """What a page with such anchors says of each link."""
    text = "\n".join(f"[{anchor}]({url})" for anchor, url in zip(anchors, URLS, strict=False))
    return pack_evidence(page_evidence(reading_of(text), NOTHING, flat_idf))


def taught(ranker: AttributesRanker) -> None:
    """Links called wren lead to relevant pages, others do not."""
    rows = ranker.links.rows(URLS, [[said] for said in said_of("wren", "tax")])
    ranker.trainer.add(np.repeat(rows, 9, axis=0), np.arange(18) < 9)


def test_queued_links_are_classified_again_after_a_fit_s1_14() -> None:
    ranker = s1_ranker()
    chooser = AttributesLinkScorer(ranker)
    said = said_of("wren", "tax")
    assert [lead.features for lead in chooser.score_links([page_with(said, [0.5, 0.5])])[0]] == said
    assert list(chooser.rescored()) == []  # nothing was learned yet
    taught(ranker)
    moved = {key: score for _, key, score in chooser.rescored()}
    assert moved[url_key(URLS[0])] > 0.9 and moved[url_key(URLS[1])] < 0.1
    assert list(chooser.rescored()) == []


def test_fetched_links_are_forgotten_and_memory_is_bounded() -> None:
    ranker = s1_ranker()
    chooser = AttributesLinkScorer(ranker, limit=1)
    chooser.score_links([page_with(said_of("tax", "wren"), [0.5, 0.5])])
    taught(ranker)
    assert [key for _, key, _ in chooser.rescored()] == [url_key(URLS[1])]
    chooser.observe([Outcome(lead=lead_to(URLS[1]), fetched=FetchResult(url=URLS[1]))])
    ranker.trainer.add(*some_rows(40, seed=3))
    assert list(chooser.rescored()) == []


def test_link_to_be_asked_for_again_stays_known() -> None:
    ranker = s1_ranker()
    chooser = AttributesLinkScorer(ranker)
    chooser.score_links([page_with(said_of("wren", "tax"), [0.5, 0.5])])
    failure = Failure("timeout", retry=True)
    chooser.observe([Outcome(lead=lead_to(URLS[0]), fetched=FetchResult(url=URLS[0], failure=failure))])
    taught(ranker)
    assert url_key(URLS[0]) in {key for _, key, _ in chooser.rescored()}


def test_first_five_parents_make_a_links_row_s1_22() -> None:
    """The score is that of all parents together, also where one alone promised more; the sixth is not looked at."""
    ranker = s1_ranker()
    ranker.links.topic.restore(EvolvingTopic(table_from_weights({"wren": 1.0, "song": 0.9})).snapshot())
    chooser = AttributesLinkScorer(ranker)
    scores = []
    for at, anchor in enumerate(("wren", "tax", "law", "duty", "song", "wren")):
        (leads,) = chooser.score_links([page_with(said_of(anchor), [0.5], f"http://p{at}.example/", URLS[:1])])
        scores.append(leads[0].score)
    assert scores[4] > scores[3] == scores[0]  # a mean of anchor and surroundings, until something is learned
    assert scores[5] == scores[4]


def test_score_that_fell_with_a_parent_is_reported_to_the_frontier_s1_23() -> None:
    ranker = s1_ranker()
    chooser = AttributesLinkScorer(ranker)
    words = " ".join(f"w{at}" for at in range(9))
    said = pack_evidence(page_evidence(reading_of(f"wren [here]({URLS[0]})"), NOTHING, flat_idf))
    other = pack_evidence(page_evidence(reading_of(f"{words} {words} []({URLS[0]})"), NOTHING, flat_idf))
    (first,) = chooser.score_links([page_with(said, [0.9], "http://a.example/", URLS[:1])])
    (second,) = chooser.score_links([page_with(other, [0.1], "http://b.example/", URLS[:1])])
    (third,) = chooser.score_links([page_with(other, [0.1], "http://c.example/", URLS[:1])])
    assert third[0].score <= second[0].score <= first[0].score and third[0].score < first[0].score
    assert {key: score for _, key, score in chooser.rescored()} == {url_key(URLS[0]): third[0].score}


def test_page_is_learnt_by_the_row_of_all_its_parents_s1_13() -> None:
    ranker = s1_ranker()
    chooser = AttributesLinkScorer(ranker)
    for at, anchor in enumerate(("tax", "wren")):
        chooser.score_links([page_with(said_of(anchor), [0.5], f"http://p{at}.example/", URLS[:1])])
    page = Outcome(
        lead=lead_to(URLS[0], features=said_of("tax")[0]),  # the frontier keeps one parent's
        fetched=FetchResult(url=URLS[0]),
        analysis=Analysis(verdict=verdict_of(1.0)),
    )
    chooser.observe([page])
    ((row, relevant, *_),) = msgspec.msgpack.decode(ranker.make_lesson([page]))
    assert rows_in([row])[0, 1] == 1.0 and relevant


def settings_for(strategy: str, **rank: object) -> Settings:
    tree = {"strategy": strategy, "topic": {"name": "wrens"}, "seeds": {"urls": URLS[:1]}, "rank": rank}
    return complete_settings(resolve_settings(tree, "test"))


@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_strategy_makes_its_learner_s1_27_s1_28_s1_29(name: str) -> None:
    settings = settings_for(f"s1-{name}")
    topic = build_topic(settings)
    parts = build_analysis_parts(settings, topic, {"topic": initial_topic_state(settings, topic)})
    ranker = parts.learners["rank"]
    assert isinstance(ranker, AttributesRanker) and ranker.trainer.learner.name == name
    assert settings.topic.around == "beside"


@pytest.mark.parametrize("as_folder", [True, False])
def test_crawl_begins_with_a_model_but_goes_on_with_its_own(tmp_path: Path, as_folder: bool) -> None:
    learner = make_learner("tree")
    learner.fit(*some_rows(100))
    (tmp_path / MODEL_FILE).write_bytes(write_models([learner]))
    settings = settings_for("s1-tree", model=str(tmp_path if as_folder else tmp_path / MODEL_FILE))
    topic = build_topic(settings)
    states = {"topic": initial_topic_state(settings, topic)}
    ranker = build_analysis_parts(settings, topic, states).learners["rank"]
    assert isinstance(ranker, AttributesRanker) and ranker.trainer.is_ready and ranker.version == 0
    states["rank"] = ranker.snapshot()
    (tmp_path / MODEL_FILE).unlink()  # a resumed crawl does not need it any more
    again = build_analysis_parts(settings, topic, states).learners["rank"]
    assert again.snapshot() == ranker.snapshot()


def test_probability_of_a_trained_learner_is_a_member_of_the_committee(tmp_path: Path) -> None:
    learner = make_learner("tree")
    learner.fit(*some_rows(100))
    (tmp_path / MODEL_FILE).write_bytes(write_models([learner]))
    settings = settings_for("opilio", trained=str(tmp_path))
    topic = build_topic(settings)
    parts = build_analysis_parts(settings, topic, {"topic": initial_topic_state(settings, topic)})
    page = reading_of("[wren](http://a.example/wren)\n\n\n[zum](http://a.example/zum)")
    rows = unpack_features([r.features for r in scored_links(parts.ranker, page, verdict_of(0.7), lead_to())])
    chances = rows["dense"][:, DENSE_FIELDS.index("s1")].astype(float)
    assert chances.min() > 0.0 and chances[0] != chances[1]


def test_trained_learner_that_is_missing_is_reported_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^rank.trained .*none.json: can't be read"):
        create_crawl(tmp_path / "wrens", settings_for("opilio", trained=str(tmp_path / "none.json")))
    assert not (tmp_path / "wrens").exists()


@pytest.mark.parametrize(("content", "result"), [(None, "can't be read"), (b"pickle", "not a model file")])
def test_model_that_can_not_be_used_is_reported_before_a_folder_is_made(
    tmp_path: Path, content: bytes | None, result: str
) -> None:
    path, folder = tmp_path / "m.json", tmp_path / "wrens"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^rank.model .*m.json: {result}"):
        create_crawl(folder, settings_for("s1-bayes", model=str(path)))
    assert not folder.exists()


@pytest.mark.parametrize(("model", "line"), [("", "not trained before"), ("m.json", "starts with the classifier")])
def test_crawl_reports_what_the_classifier_was_trained_on_s1_14(tmp_path: Path, model: str, line: str) -> None:
    lines: list[str] = []
    rank = {}
    if model:
        rank = {"model": str(tmp_path / model)}
        learner = make_learner("bayes")
        learner.fit(*some_rows(40))
        (tmp_path / model).write_bytes(write_models([learner], topic="wrens"))

    async def start() -> None:
        tree = {"strategy": "s1-bayes", "topic": {"name": "wrens"}, "seeds": {"urls": URLS[:1]}, "rank": rank}
        async with open_crawl(tmp_path / "wrens", tree, "test", lines.append, lines.append):
            pass

    asyncio.run(start())
    assert len([one for one in lines if one.startswith("s1-bayes: ") and line in one]) == 1


def test_missing_library_is_reported_before_a_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'opilio\[learn\]'"):
        create_crawl(tmp_path / "wrens", settings_for("s1-tree"))
    assert not (tmp_path / "wrens").exists()


def test_unknown_learner_in_the_configuration_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"rank\.learner"):
        settings_for("s1-bayes", learner="oracle")
