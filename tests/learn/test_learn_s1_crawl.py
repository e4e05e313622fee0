"""S1's parts as a crawl uses them: options, the file to begin from, and queued links classified again (S1-14)."""

import importlib.util
from pathlib import Path

import msgspec
import numpy as np
import pytest

from checks.learner_checks import some_rows
from checks.readings import lead_to, reading_of, verdict_of
from opilio.crawl.build import complete, first_state, make_mind, topic_of
from opilio.crawl.columns import pack
from opilio.crawl.config import Settings, resolve
from opilio.crawl.job import begin
from opilio.crawl.s1chooser import S1Chooser
from opilio.crawl.s1kind import MODEL
from opilio.judge.pagewords import flat_idf
from opilio.learn.learners import LEARNERS, make_learner
from opilio.learn.linkfeatures import DENSE, unpacked
from opilio.learn.modelfile import write_models
from opilio.learn.teacher import Teacher
from opilio.model.errors import ConfigError
from opilio.model.records import Analysis, Failure, Fetched, LinkColumns, Outcome, key_of
from opilio.rank.evidence import packed, page_evidence
from opilio.rank.linkrows import LinkRows, Words
from opilio.rank.s1 import S1Ranker
from opilio.rank.s1 import unpacked as rows_in
from opilio.topic.living import LivingTopic
from opilio.topic.table import table_of

pytest.importorskip("sklearn")
NOTHING = np.zeros(0, dtype=np.uint32), np.zeros(0)
URLS = ["http://x.example/a", "http://x.example/b"]


def s1_ranker() -> S1Ranker:
    teacher = Teacher(make_learner("bayes"), every=1, least=1)
    words = Words(lambda urls: [[] for _ in urls], lambda _: NOTHING, flat_idf)
    return S1Ranker(LinkRows(LivingTopic(table_of({"wren": 1.0})), words), teacher)


def page_with(
    features: list[bytes], scores: list[float], url: str = "http://x.example/", urls: list[str] = URLS
) -> Outcome:
    columns = LinkColumns(
        urls=urls,
        hosts=["x.example"] * len(urls),
        anchors=[""] * len(urls),
        keys=np.array([key_of(u) for u in urls], dtype=np.int64).tobytes(),
        scores=np.array(scores, dtype=np.float32).tobytes(),
        names=[],
        parts=b"",
        dropped={},
        features=features,
    )
    return Outcome(
        lead=lead_to(url), fetched=Fetched(url=url), analysis=Analysis(verdict=verdict_of(0.5), links=pack(columns))
    )


def said_of(*anchors: str) -> list[bytes]:
    """What a page with such anchors says of each link."""
    text = "\n".join(f"[{anchor}]({url})" for anchor, url in zip(anchors, URLS, strict=False))
    return packed(page_evidence(reading_of(text), NOTHING, flat_idf))


def taught(ranker: S1Ranker) -> None:
    """Links called wren lead to relevant pages, others do not."""
    rows = ranker.links.rows(URLS, [[said] for said in said_of("wren", "tax")])
    ranker.teacher.tell(np.repeat(rows, 9, axis=0), np.arange(18) < 9)


def test_queued_links_are_classified_again_after_a_fit_s1_14() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker)
    said = said_of("wren", "tax")
    assert [lead.features for lead in chooser.leads([page_with(said, [0.5, 0.5])])[0]] == said
    assert list(chooser.changes()) == []  # nothing was learnt yet
    taught(ranker)
    moved = {key: score for _, key, score in chooser.changes()}
    assert moved[key_of(URLS[0])] > 0.9 and moved[key_of(URLS[1])] < 0.1
    assert list(chooser.changes()) == []


def test_fetched_links_are_forgotten_and_memory_is_bounded() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker, limit=1)
    chooser.leads([page_with(said_of("tax", "wren"), [0.5, 0.5])])
    taught(ranker)
    assert [key for _, key, _ in chooser.changes()] == [key_of(URLS[1])]
    chooser.watch([Outcome(lead=lead_to(URLS[1]), fetched=Fetched(url=URLS[1]))])
    ranker.teacher.tell(*some_rows(40, seed=3))
    assert list(chooser.changes()) == []


def test_link_to_be_asked_for_again_stays_known() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker)
    chooser.leads([page_with(said_of("wren", "tax"), [0.5, 0.5])])
    failure = Failure("timeout", retry=True)
    chooser.watch([Outcome(lead=lead_to(URLS[0]), fetched=Fetched(url=URLS[0], failure=failure))])
    taught(ranker)
    assert key_of(URLS[0]) in {key for _, key, _ in chooser.changes()}


def test_first_five_parents_make_a_links_row_s1_22() -> None:
    """The score is that of all parents together, also where one alone promised more; the sixth is not looked at."""
    ranker = s1_ranker()
    ranker.links.topic.restore(LivingTopic(table_of({"wren": 1.0, "song": 0.9})).snapshot())
    chooser = S1Chooser(ranker)
    scores = []
    for at, anchor in enumerate(("wren", "tax", "law", "duty", "song", "wren")):
        (leads,) = chooser.leads([page_with(said_of(anchor), [0.5], f"http://p{at}.example/", URLS[:1])])
        scores.append(leads[0].score)
    assert scores[4] > scores[3] == scores[0]  # a mean of anchor and surroundings, until something is learnt
    assert scores[5] == scores[4]


def test_score_that_fell_with_a_parent_is_told_to_the_frontier_s1_23() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker)
    words = " ".join(f"w{at}" for at in range(9))
    said = said_of("wren")
    other = packed(page_evidence(reading_of(f"{words} {words} []({URLS[0]})"), NOTHING, flat_idf))
    (first,) = chooser.leads([page_with(said, [0.9], "http://a.example/", URLS[:1])])
    (second,) = chooser.leads([page_with(other, [0.1], "http://b.example/", URLS[:1])])
    (third,) = chooser.leads([page_with(other, [0.1], "http://c.example/", URLS[:1])])
    assert third[0].score <= second[0].score <= first[0].score and third[0].score < first[0].score
    assert {key: score for _, key, score in chooser.changes()} == {key_of(URLS[0]): third[0].score}


def test_page_is_learnt_by_the_row_of_all_its_parents_s1_13() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker)
    for at, anchor in enumerate(("tax", "wren")):
        chooser.leads([page_with(said_of(anchor), [0.5], f"http://p{at}.example/", URLS[:1])])
    page = Outcome(
        lead=lead_to(URLS[0], features=said_of("tax")[0]),  # the frontier keeps one parent's
        fetched=Fetched(url=URLS[0]),
        analysis=Analysis(verdict=verdict_of(1.0)),
    )
    chooser.watch([page])
    ((row, relevant, *_),) = msgspec.msgpack.decode(ranker.lesson([page]))
    assert rows_in([row])[0, 1] == 1.0 and relevant


def settings_for(strategy: str, **rank: object) -> Settings:
    tree = {"strategy": strategy, "topic": {"name": "wrens"}, "seeds": {"urls": URLS[:1]}, "rank": rank}
    return complete(resolve(tree, "test"))


@pytest.mark.parametrize("name", LEARNERS)
def test_strategy_makes_its_learner_s1_27_s1_28_s1_29(name: str) -> None:
    settings = settings_for(f"s1-{name}")
    topic = topic_of(settings)
    mind = make_mind(settings, topic, {"topic": first_state(settings, topic)})
    ranker = mind.learners["rank"]
    assert isinstance(ranker, S1Ranker) and ranker.teacher.learner.name == name
    assert settings.topic.around == "beside"


@pytest.mark.parametrize("as_folder", [True, False])
def test_crawl_begins_with_a_model_but_goes_on_with_its_own(tmp_path: Path, as_folder: bool) -> None:
    learner = make_learner("tree")
    learner.fit(*some_rows(100))
    (tmp_path / MODEL).write_bytes(write_models([learner]))
    settings = settings_for("s1-tree", model=str(tmp_path if as_folder else tmp_path / MODEL))
    topic = topic_of(settings)
    states = {"topic": first_state(settings, topic)}
    ranker = make_mind(settings, topic, states).learners["rank"]
    assert isinstance(ranker, S1Ranker) and ranker.teacher.ready and ranker.version == 0
    states["rank"] = ranker.snapshot()
    (tmp_path / MODEL).unlink()  # a resumed crawl does not need it any more
    again = make_mind(settings, topic, states).learners["rank"]
    assert again.snapshot() == ranker.snapshot()


def test_probability_of_a_trained_learner_is_a_member_of_the_committee(tmp_path: Path) -> None:
    learner = make_learner("tree")
    learner.fit(*some_rows(100))
    (tmp_path / MODEL).write_bytes(write_models([learner]))
    settings = settings_for("opilio", trained=str(tmp_path))
    topic = topic_of(settings)
    mind = make_mind(settings, topic, {"topic": first_state(settings, topic)})
    page = reading_of("[wren](http://a.example/wren)\n\n\n[zum](http://a.example/zum)")
    rows = unpacked([r.features for r in mind.ranker.rank(page, verdict_of(0.7), lead_to())])
    chances = rows["dense"][:, DENSE.index("s1")].astype(float)
    assert chances.min() > 0.0 and chances[0] != chances[1]


def test_trained_learner_that_is_missing_is_told_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^rank.trained .*none.json: can't be read"):
        begin(tmp_path / "wrens", settings_for("opilio", trained=str(tmp_path / "none.json")))
    assert not (tmp_path / "wrens").exists()


@pytest.mark.parametrize(("content", "told"), [(None, "can't be read"), (b"pickle", "is no model file")])
def test_model_that_can_not_be_used_is_told_before_a_folder_is_made(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    path, folder = tmp_path / "m.json", tmp_path / "wrens"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^rank.model .*m.json: {told}"):
        begin(folder, settings_for("s1-bayes", model=str(path)))
    assert not folder.exists()


def test_missing_library_is_told_before_a_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'opilio\[learn\]'"):
        begin(tmp_path / "wrens", settings_for("s1-tree"))
    assert not (tmp_path / "wrens").exists()


def test_unknown_learner_in_the_configuration_is_told() -> None:
    with pytest.raises(ConfigError, match=r"rank\.learner"):
        settings_for("s1-bayes", learner="oracle")
