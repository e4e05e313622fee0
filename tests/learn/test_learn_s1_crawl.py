"""S1's parts as a crawl uses them: options, the file to begin from, and queued links classified again (S1-14)."""

import importlib.util
from pathlib import Path

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
from opilio.learn.learners import LEARNERS, make_learner
from opilio.learn.linkfeatures import DENSE, unpacked
from opilio.learn.modelfile import write_models
from opilio.learn.teacher import Teacher
from opilio.model.errors import ConfigError
from opilio.model.records import Analysis, Fetched, LinkColumns, Outcome, key_of
from opilio.rank.s1 import S1Ranker, packed
from opilio.topic.living import LivingTopic
from opilio.topic.table import table_of

pytest.importorskip("sklearn")
URLS = ["http://x.example/a", "http://x.example/b"]


def s1_ranker() -> S1Ranker:
    teacher = Teacher(make_learner("bayes"), every=1, least=1)
    return S1Ranker(
        LivingTopic(table_of({"wren": 1.0})),
        lambda urls: [[] for _ in urls],
        lambda _: (np.zeros(0, dtype=np.uint32), np.zeros(0)),
        teacher,
    )


def page_with(features: list[bytes], scores: list[float], url: str = "http://x.example/") -> Outcome:
    columns = LinkColumns(
        urls=URLS,
        hosts=["x.example"] * 2,
        anchors=["", ""],
        keys=np.array([key_of(u) for u in URLS], dtype=np.int64).tobytes(),
        scores=np.array(scores, dtype=np.float32).tobytes(),
        names=[],
        parts=b"",
        dropped={},
        features=features,
    )
    return Outcome(
        lead=lead_to(url), fetched=Fetched(url=url), analysis=Analysis(verdict=verdict_of(0.5), links=pack(columns))
    )


def test_queued_links_are_classified_again_after_a_fit_s1_14() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker)
    rows = np.array([[1.0] * 4 + [0.0] * 4, [0.0] * 8])
    assert [lead.features for lead in chooser.leads([page_with(packed(rows), [0.5, 0.5])])[0]] == packed(rows)
    assert list(chooser.changes()) == []  # nothing was learnt yet
    ranker.teacher.tell(np.repeat(rows, 9, axis=0), np.arange(18) < 9)
    moved = {key: score for _, key, score in chooser.changes()}
    assert moved[key_of(URLS[0])] > 0.9 and moved[key_of(URLS[1])] < 0.1
    assert list(chooser.changes()) == []


def test_fetched_links_are_forgotten_and_memory_is_bounded() -> None:
    ranker = s1_ranker()
    chooser = S1Chooser(ranker, limit=1)
    chooser.leads([page_with(packed(np.zeros((2, 8))), [0.5, 0.5])])
    ranker.teacher.tell(*some_rows(40))
    assert [key for _, key, _ in chooser.changes()] == [key_of(URLS[1])]
    chooser.watch([Outcome(lead=lead_to(URLS[1]), fetched=Fetched(url=URLS[1]))])
    ranker.teacher.tell(*some_rows(40, seed=3))
    assert list(chooser.changes()) == []


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
