"""The committee's ranker: the checks of every ranker, and features that say what the page says."""

import numpy as np

from checks.ranker_checks import PAGE, check_ranker
from checks.readings import lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.learn.linkfeatures import PACKED, prefixes_of, unpacked
from opilio.rank.committee import CommitteeRanker
from opilio.text.vocabulary import Vocabulary
from opilio.topic.genre import Genres, default_genres
from opilio.topic.living import LivingTopic
from opilio.topic.table import table_of

TOPIC = LivingTopic(table_of({"wren": 1.0, "song": 0.5}))


def ranker() -> CommitteeRanker:
    return CommitteeRanker(TOPIC, Vocabulary(normaliser="none"), url_terms, Genres(default_genres(), terms_of))


def test_committee_ranker_passes_the_checks() -> None:
    check_ranker(ranker)


def test_features_are_packed_for_every_link_and_finite() -> None:
    reading = reading_of(PAGE)
    ranked = ranker().rank(reading, verdict_of(0.7), lead_to())
    assert {len(r.features) for r in ranked} == {PACKED.itemsize}
    rows = unpacked([r.features for r in ranked])
    assert np.isfinite(rows["dense"].astype(np.float64)).all()
    assert [tuple(row) for row in rows["prefixes"].tolist()] == [prefixes_of(r.link.url) for r in ranked]


def test_words_are_named_by_the_index_they_are_hashed_to() -> None:
    reading = reading_of(PAGE)
    place = next(i for i, link in enumerate(reading.page.links) if link.anchor == "wren songs")
    rows = unpacked([r.features for r in ranker().rank(reading, verdict_of(0.7), lead_to())])
    one = ranker()
    one.vocabulary.terms("wren songs")  # a reader of real pages has met its words
    names = one.named(reading, place)
    used = set(rows["words"][place][rows["words"][place] > 0].tolist())
    assert used == set(names)
    assert any("wren" in name for name in names.values())


def test_page_without_links_has_no_features() -> None:
    assert list(ranker().rank(reading_of("wren"), verdict_of(0.7), lead_to())) == []
