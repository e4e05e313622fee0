"""Link texts in one batch: S1-21, S3-18…S3-20, S3-E3, S3-E9, X-01, X-09."""

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import Reading
from opilio.rank.link_scores import LinkTextMeasure, LinkTexts
from opilio.testing.conformance import reading_of, terms_of, url_terms
from opilio.topic.evolving import CompiledTable, compile_table
from opilio.topic.weights import table_from_weights

S3_TABLE_I = {"audi": 1.0, "hwi": 0.94, "engine": 0.70, "car": 0.68, "volkswagen": 0.53, "autoblog": 0.53}
S3_TABLE_I |= {"race": 0.45, "quattro": 0.30, "union": 0.28, "german": 0.22}
AUDI = compile_table(table_from_weights(S3_TABLE_I))


def scores(text: str, sight: CompiledTable, form: LinkTextMeasure) -> np.ndarray:
    reading = reading_of(text)
    return LinkTexts(reading, url_terms([link.url for link in reading.page.links])).score(sight, form)


def test_scores_of_table_i_s3_18_s3_19_s3_20() -> None:
    url, anchor, around = scores("a [audi quattro](http://x.example/audi/car) old", AUDI, "share")[:, 0]
    assert (round(url, 3), round(anchor, 3)) == (0.168, 0.130)
    around = scores("engine [](http://x.example/) german race", AUDI, "share")[2, 0]
    assert round(around, 3) == 0.137


def test_mass_form_does_not_depend_on_table_size_s3_e3() -> None:
    assert scores(f"[{' '.join(S3_TABLE_I)}](http://x.example/)", AUDI, "mass")[1, 0] == pytest.approx(1.0)
    assert scores(f"[{' '.join(S3_TABLE_I)}](http://x.example/)", AUDI, "share")[1, 0] == pytest.approx(0.563)


@pytest.mark.parametrize("form", ["page", "topic", "masked", "share", "mass"])
def test_empty_table_scores_zero_s3_e9(form: LinkTextMeasure) -> None:
    assert not scores("[audi](http://x.example/audi) car", compile_table(table_from_weights({})), form).any()


def test_page_norm_counts_every_word_and_topic_norm_the_topics_only_x_01() -> None:
    text = "[audi tax law](http://x.example/)"
    page, topic = (scores(text, AUDI, form)[1, 0] for form in ("page", "topic"))
    assert topic == pytest.approx(1.0 / AUDI.norm)
    assert page == pytest.approx(topic / math.sqrt(3))


def test_papers_score_one_anchor_in_their_own_forms_x_09() -> None:
    """S0 and S4: cosine; S1: cosine of the table's masked copy; S3: sum of weights over the table's size."""
    matched = S3_TABLE_I["audi"], S3_TABLE_I["race"]
    text = "[audi race today](http://x.example/)"
    by = {form: scores(text, AUDI, form)[1, 0] for form in ("page", "masked", "share")}
    assert by["page"] == pytest.approx(sum(matched) / (math.sqrt(3) * AUDI.norm))
    assert by["masked"] == pytest.approx(math.hypot(*matched) / AUDI.norm)
    assert by["share"] == pytest.approx(sum(matched) / len(S3_TABLE_I))


words = st.sampled_from(["audi", "car", "race", "tax", "law"])
texts = st.lists(words, max_size=6).map(" ".join)


@given(st.lists(st.tuples(texts, texts), max_size=5))
def test_batch_equals_cosine_link_by_link(lines: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{before} [{anchor}](http://x.example/{i})" for i, (before, anchor) in enumerate(lines))
    found = scores(text, AUDI, "page")
    for i, (before, anchor) in enumerate(lines):
        assert found[1, i] == pytest.approx(_cosine(anchor))
        assert found[2, i] == pytest.approx(_cosine(f"{before} {anchor}"))


def _cosine(text: str) -> float:
    counts = Counter(terms_of(text))
    length = math.sqrt(sum(n * n for n in counts.values())) * AUDI.norm
    return sum(AUDI.vector.get(t, 0.0) * n for t, n in counts.items()) / length if length else 0.0


@pytest.mark.parametrize("form", ["page", "topic", "masked", "share", "mass"])
@given(st.lists(texts, min_size=1, max_size=4))
def test_scores_stay_within_range(form: LinkTextMeasure, lines: list[str]) -> None:
    found = scores("\n".join(f"[{line}](http://audi.example/car) {line}" for line in lines), AUDI, form)
    assert ((found >= 0.0) & (found <= 1.0)).all()


def test_slices_are_found_by_the_links_index() -> None:
    """A page may list fewer links than its flow has marks, and links that are not in the flow at all."""
    reading = reading_of("[tax](http://x.example/1)\n[audi](http://x.example/2)")
    second = reading.page.links[1]
    absent = msgspec.structs.replace(second, index=-1)
    beyond = msgspec.structs.replace(second, index=9)
    page = msgspec.structs.replace(reading.page, links=(second, absent, beyond))
    cut = Reading(
        page=page,
        terms=reading.terms,
        anchors=reading.anchors,
        link_contexts=reading.link_contexts,
        main_slices=reading.main_slices,
    )
    anchor = LinkTexts(cut, [(), (), ()]).score(AUDI, "page")[1]
    assert anchor[0] > 0.0 and anchor[1] == anchor[2] == 0.0


def test_matched_pairs_name_text_and_term() -> None:
    reading = reading_of("[audi tax](http://x.example/)")
    matched = LinkTexts(reading, [()]).matched(AUDI)
    assert matched == [(1, terms_of("audi")[0]), (2, terms_of("audi")[0])]
