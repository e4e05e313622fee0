"""The committee's ranker: the checks of every ranker, and features that say what the page says."""

from pathlib import Path

import numpy as np
import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.scored_links import scored_links
from checks.small_webs import rows as rows_of
from opilio.core.clock import VirtualClock
from opilio.core.records import url_key
from opilio.learn.word_model import DENSE_FIELDS, LINK_FEATURES_DTYPE, unpack_features, url_prefixes
from opilio.methods.dewey.detect import LexiconMatcher, parse_lexicon
from opilio.methods.treasure.focus import GalaxyMember
from opilio.rank.committee import CommitteeMember, CommitteeRanker, LinkMeanings, LinkWords
from opilio.rank.link_scores import unpack
from opilio.rank.topic_genre import TopicGenreRanker
from opilio.testing.conformance import PAGE, check_ranker, lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.text.word_vectors import load_word_vectors
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.genre import GenreDetector, GenreWords
from opilio.topic.page_terms import flat_idf
from opilio.topic.weights import table_from_weights

TOPIC = EvolvingTopic(table_from_weights({"wren": 1.0, "song": 0.5}))

SITE = "http://a.example/"


def ranker() -> CommitteeRanker:
    return CommitteeRanker(TOPIC, LinkWords(Vocabulary(normalizer="none"), url_terms))


def test_committee_ranker_passes_the_checks() -> None:
    check_ranker(ranker)


def test_features_are_packed_for_every_link_and_finite() -> None:
    reading = reading_of(PAGE)
    ranked = scored_links(ranker(), reading, verdict_of(0.7), lead_to())
    assert {len(r.features) for r in ranked} == {LINK_FEATURES_DTYPE.itemsize}
    rows = unpack_features([r.features for r in ranked])
    assert np.isfinite(rows["dense"].astype(np.float64)).all()
    assert [tuple(row) for row in rows["prefixes"].tolist()] == [url_prefixes(r.link.url) for r in ranked]


def test_words_are_named_by_the_index_they_are_hashed_to() -> None:
    reading = reading_of(PAGE)
    place = next(i for i, link in enumerate(reading.page.links) if link.anchor == "wren songs")
    rows = unpack_features([r.features for r in scored_links(ranker(), reading, verdict_of(0.7), lead_to())])
    one = ranker()
    one.words.vocabulary.terms("wren songs")  # a reader of real pages has met its words
    names = one.word_labels(reading, place)
    used = set(rows["words"][place][rows["words"][place] > 0].tolist())
    assert used == set(names)
    assert any("wren" in name for name in names.values())


def test_page_without_links_has_no_features() -> None:
    assert list(scored_links(ranker(), reading_of("wren"), verdict_of(0.7), lead_to())) == []


def test_galaxy_is_a_feature_where_it_is_asked_for_s2_02() -> None:
    lexicon = parse_lexicon("598 | Birds | wren; song\n346 | Law | court; tax\n", "small")
    one = ranker()
    galaxy = GalaxyMember(LexiconMatcher(lexicon, Vocabulary(normalizer="none")), ("598",))
    one.add_member(CommitteeMember({"galaxy": galaxy}))
    page = reading_of("[wren song](http://a.example/1)\n[court](http://a.example/2)\n[zum](http://a.example/3)")
    rows = unpack_features([r.features for r in scored_links(one, page, verdict_of(0.7), lead_to())])
    assert rows["dense"][:, DENSE_FIELDS.index("galaxy")].tolist() == [1.0, 0.0, 0.0]


def test_feature_without_a_member_is_zero_and_changes_no_score() -> None:
    rows = unpack_features([r.features for r in scored_links(ranker(), reading_of(PAGE), verdict_of(0.7), lead_to())])
    assert not rows["dense"][:, DENSE_FIELDS.index("galaxy")].any()


def dense(name: str, rows: list[bytes]) -> list[float]:
    return [round(float(value), 3) for value in unpack_features(rows)["dense"][:, DENSE_FIELDS.index(name)]]


def test_scores_of_s3_are_members_s3_17_s3_23() -> None:
    genres = GenreDetector({"news": GenreWords("news", frozenset(), {"english": ("headline",)})}, terms_of)
    s3, one = TopicGenreRanker(TOPIC, url_terms, genres), ranker()
    one.add_member(CommitteeMember({"tswt": s3.topic_member_scores, "genre": s3.genre_member_scores}))
    page = reading_of("[wren song](http://a.example/1)\n[headline](http://a.example/2)\n[zum](http://a.example/3)")
    rows = [r.features for r in scored_links(one, page, verdict_of(0.7), lead_to())]
    topical, generic = dense("tswt", rows), dense("genre", rows)
    assert topical[0] > topical[1] == topical[2] == 0.0
    assert generic[1] > generic[0] == generic[2]


def test_crawl_with_the_galaxy_reaches_what_the_topic_is_about(tmp_path: Path) -> None:
    body = "<p>Finches and wrens are birds.</p><p><a href='/1'>songbirds</a></p><p><a href='/2'>tax law</a></p>"
    pages = {"0": body, "1": "<p>Wrens, finches.</p>", "2": "<p>Tax.</p>"}
    answers = {SITE + path: html(SITE + path, f"<html><body>{text}</body></html>") for path, text in pages.items()}
    tree = plain_tree([SITE + "0"], strategy="opilio", topic={"dewey": ["598"]}, rank={"galaxy": True})
    clock = VirtualClock()
    run_engine(tmp_path / "c", tree, PageFetcher(answers, clock, 0.0), clock=clock)
    columns = unpack(rows_of(tmp_path / "c", "SELECT columns FROM links WHERE parent = ?", url_key(SITE + "0"))[0][0])
    galaxy = unpack_features(columns.features)["dense"][:, DENSE_FIELDS.index("galaxy")].tolist()
    assert galaxy[0] > 0.5 > galaxy[1]


def test_link_has_the_meaning_of_its_anchor_or_of_the_last_part_of_its_url() -> None:
    vocabulary = Vocabulary(normalizer="none")
    topic = EvolvingTopic(table_from_weights({"bird": 1.0, "song": 0.5}))
    one = CommitteeRanker(topic, LinkWords(vocabulary, url_terms))
    one.meanings = LinkMeanings(load_word_vectors(vocabulary), topic, flat_idf, UrlTerms(vocabulary))
    text = "[sparrow](http://a.example/1)\n[railway](http://a.example/2)\n[zqxwv](http://a.example/x/sparrow.html)"
    rows = [r.features for r in scored_links(one, reading_of(text), verdict_of(0.7), lead_to())]
    sparrow, railway, by_url = dense("meaning", rows)
    assert sparrow == by_url
    assert sparrow > 0.3 > railway
    assert unpack_features(rows)["meaning"].any(axis=1).all()
    again = [r.features for r in scored_links(one, reading_of(text), verdict_of(0.7), lead_to())]
    assert again == rows


def test_words_that_no_page_had_are_worth_what_similar_words_are_worth() -> None:
    vocabulary = Vocabulary(normalizer="none")
    vectors = load_word_vectors(vocabulary)
    meanings = LinkMeanings(vectors, EvolvingTopic(table_from_weights({"bird": 1.0})), flat_idf, UrlTerms(vocabulary))
    birds = "sparrow eagle owl pigeon goose duck swan parrot hawk falcon crow raven gull penguin ostrich turkey chicken"
    rails = "train railway station locomotive wagon freight rail passenger express platform metro tram subway bus route"
    good, bad = vocabulary.terms(4 * (birds + " ")), vocabulary.terms(4 * (rails + " "))
    direction = meanings.word_direction(np.array(good + bad), np.array([2.0] * len(good) + [-2.0] * len(bad)))
    assert direction is not None
    stork, ferry = (vectors.mean(np.array(vocabulary.terms(word), dtype=np.uint32)) for word in ("stork", "ferry"))
    assert stork @ direction > 0.3 > -0.3 > ferry @ direction
    assert meanings.word_direction(np.array(good[:9]), np.ones(9)) is None


@pytest.mark.parametrize("wanted", [True, False])
def test_meaning_can_be_left_out(tmp_path: Path, wanted: bool) -> None:
    answers = {SITE + "0": html(SITE + "0", "<html><body><p>Birds: <a href='/1'>sparrow</a></p></body></html>")}
    tree, clock = plain_tree([SITE + "0"], strategy="opilio", rank={"meaning": wanted}), VirtualClock()
    run_engine(tmp_path / "c", tree, PageFetcher(answers, clock, 0.0), clock=clock)
    columns = unpack(rows_of(tmp_path / "c", "SELECT columns FROM links WHERE parent = ?", url_key(SITE + "0"))[0][0])
    assert bool(unpack_features(columns.features)["meaning"].any()) is wanted
