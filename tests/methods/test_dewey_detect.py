"""Classes of texts, pages and links (S2-20, S2-23, S2-24, S2-25)."""

import pytest

from opilio.core.records import Link, Page, Reading
from opilio.methods.dewey.detect import (
    PAPER_RULE,
    RECOMMENDED_RULE,
    GalaxyRule,
    LexiconMatcher,
    ScoredClass,
    builtin_lexicon,
    galaxy_of,
    link_galaxies,
    main_galaxy,
    parse_lexicon,
)
from opilio.text.term_arrays import build_idf
from opilio.text.vocabulary import Vocabulary

SMALL = """
599 | Mammals | bear; whale
599.5 | Whales | blue whale; whale song
535 | Light | blue
571 | Cells | cell
616.9 | Infections | t cell; white blood cell
"""


def classes_of(
    text: str | list[int], matcher: LexiconMatcher, rule: GalaxyRule = RECOMMENDED_RULE
) -> list[ScoredClass]:
    """The three best classes of a text, or of its terms."""
    terms = matcher.vocabulary.terms(text) if isinstance(text, str) else text
    return list(galaxy_of(terms, matcher, rule).ranked[:3])


@pytest.fixture(scope="module")
def full() -> LexiconMatcher:
    return LexiconMatcher(builtin_lexicon(), Vocabulary(normalizer="porter"))


@pytest.fixture(scope="module")
def small() -> LexiconMatcher:
    return LexiconMatcher(parse_lexicon(SMALL, "small"), Vocabulary(normalizer="porter"))


def spotted(matcher: LexiconMatcher, text: str) -> list[str]:
    return [hit.word for hit in matcher.hits(matcher.vocabulary.terms(text))]


def test_phrase_is_found_before_its_words_s2_24(small: LexiconMatcher) -> None:
    assert spotted(small, "A blue whale, a whale, something blue") == ["blue whale", "whale", "blue"]


def test_inflected_forms_match_by_stem_s2_20(small: LexiconMatcher) -> None:
    assert spotted(small, "BLUE WHALES and Bears") == ["blue whale", "bear"]


def test_phrase_that_shrinks_to_one_word_is_not_that_word(small: LexiconMatcher) -> None:
    assert spotted(small, "cells") == ["cell"]
    assert small.hits(small.vocabulary.terms("cell"))[0].numbers == ("571",)


def test_terms_with_one_stem_share_their_numbers() -> None:
    matcher = LexiconMatcher(
        parse_lexicon("598 | Birds | bird\n636 | Pets | birds\n", "two"), Vocabulary(normalizer="porter")
    )
    assert len(matcher) == 1
    assert matcher.hits(matcher.vocabulary.terms("birds"))[0].numbers == ("598", "636")


def test_common_words_count_less_with_a_background() -> None:
    vocabulary = Vocabulary(normalizer="porter")
    bear, cell, blue, whale = vocabulary.terms("bear cell blue whale")
    matcher = LexiconMatcher(
        parse_lexicon(SMALL, "small"), vocabulary, build_idf([[bear, blue]] * 9 + [[cell, blue, whale]])
    )
    rarity = {hit.word: hit.rarity for hit in matcher.hits([bear, cell, blue, whale])}
    assert 0 < rarity["bear"] < rarity["cell"] < 1
    assert rarity["blue whale"] > rarity["cell"]
    assert classes_of([bear, cell], matcher)[0].code == "571"
    assert len({score for _, score in classes_of([bear, cell], matcher, rule=PAPER_RULE)}) == 1


def test_clothing_has_three_classes_s2_25(full: LexiconMatcher) -> None:
    assert sorted(cell.code for cell in classes_of("clothing", full)) == ["155", "391", "746"]


@pytest.mark.parametrize(
    ("text", "hundred"),
    [
        ("A compiler turns the source code of a programming language into machine code for the microprocessor.", "0"),
        ("Kant asked in his critique how epistemology and metaphysics, moral duty and free will, are possible.", "1"),
        ("The bishop read the gospel in the cathedral before the eucharist, and the congregation prayed a psalm.", "2"),
        ("Parliament was dissolved; the election gave the labour party a majority and inflation fell.", "3"),
        (
            "The verb agrees with its subject: in the past tense the suffix marks person, the noun takes the dative.",
            "4",
        ),
        ("The kestrel is a falcon that hovers above grassland and feeds on voles; it nests in cavities.", "5"),
        ("The diesel engine drives the tractor; its crankshaft and fuel injection need lubricant.", "6"),
        ("The violin concerto was first played by the symphony orchestra, the soprano sang an aria.", "7"),
        ("In the novel by Charles Dickens, Oliver Twist meets Fagin; the novelist wrote it as a serial.", "8"),
        ("Napoleon was beaten at Waterloo; the congress at Vienna restored the Bourbon dynasty of France.", "9"),
    ],
)
def test_plain_text_lands_in_its_hundred(full: LexiconMatcher, text: str, hundred: str) -> None:
    assert classes_of(text, full)[0].code[0] == hundred


@pytest.mark.parametrize(
    ("word", "readings"),
    [
        ("python", {"The python is a snake that swallows its prey; like other reptiles it has scales.": "597",
                    "A python program calls a function; the compiler and the debugger read its source code.": "005"}),
        ("jaguar", {"The jaguar, like leopard, tiger and lion, is a carnivore of the rainforest.": "599",
                    "The jaguar is a sports car; its gearbox and chassis are those of a racing car.": "629"}),
        ("mercury", {"Mercury orbits the sun closer than venus; like mars it is a rocky planet.": "523",
                     "Mercury, zinc and cadmium are metals; mercury is a liquid chemical element.": "546",
                     "In roman mythology mercury, son of jupiter, is the counterpart of hermes and zeus.": "292"}),
        ("cell", {"The cell divides; its metabolism and photosynthesis are part of physiology.": "571",
                  "The prisoner left his cell in the jail when the inmate got parole.": "365"}),
        ("crane", {"The crane is a bird; its plumage, feather and nest are known from birdwatching.": "598",
                   "A crane lifts loads by a pulley, a gear, a winch and a bearing.": "621"}),
    ],
)  # fmt: skip
def test_galaxy_decides_between_the_numbers_of_a_word_s2_f4(
    full: LexiconMatcher, word: str, readings: dict[str, str]
) -> None:
    (hit,) = full.hits(full.vocabulary.terms(word))
    assert {number[:3] for number in hit.numbers} >= set(readings.values())
    assert [classes_of(text, full)[0].code for text in readings] == list(readings.values())


def test_words_without_index_terms_have_no_class(full: LexiconMatcher) -> None:
    assert classes_of("zzyzx qwyjibo", full) == []
    assert galaxy_of([], full).code == ""


def test_stop_words_and_order_of_the_rest_do_not_change_single_words(small: LexiconMatcher) -> None:
    assert classes_of("the bear and the cell", small) == classes_of("cell bear", small)


def reading(matcher: LexiconMatcher) -> Reading:
    """Two links: one with words around it, one with nothing but its headings; then one with nothing at all."""
    terms = matcher.vocabulary.terms("bear blue whale cell cell cell")
    links = tuple(
        Link(url=f"http://a.example/{n}", key=n, host="a.example", headings=(heading, "", ""), index=n)
        for n, heading in enumerate(["", "A white blood cell", ""])
    )
    return Reading(
        page=Page(url="http://a.example/", title="Bears", links=links),
        terms=terms,
        anchors=[(0, 1), (6, 6), (6, 6)],
        link_contexts=[(0, 3), (6, 6), (6, 6)],
        main_slices=[(0, 3)],
    )


def test_link_is_judged_by_the_words_between_its_break_points_s2_23(small: LexiconMatcher) -> None:
    near, by_heading, by_title = link_galaxies(reading(small), small)
    assert near.code == "599"
    assert near.ranked[0].score == pytest.approx(1.4 + 1.0)  # the anchor's bear, and the blue whale beside it
    assert (by_heading.code, by_title.code) == ("616", "599")


def test_page_is_judged_by_its_title_and_main_text(small: LexiconMatcher) -> None:
    assert main_galaxy(reading(small), small).code == "599"
