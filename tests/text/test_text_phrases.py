import pickle

from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import LINK_END, LINK_START, Page
from opilio.judge.similarity import CosineJudge
from opilio.text.reading import PageReader
from opilio.text.tokens import UrlTerms, tokenize
from opilio.text.vocabulary import PhraseMatcher, Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.topic import build_topic_table, make_topic

QUERIES = [  # S4-09
    "Kejriwal new manifesto for lok sabha polls 2014.",
    "Manifesto of BJP for lok sabha polls 2014.",
    "lok sabha polls 2014 dates",
]


def word_phrases(lexicon: list[str]) -> PhraseMatcher[str]:
    return PhraseMatcher({tuple(words): " ".join(words) for phrase in lexicon if len(words := tokenize(phrase)) > 1})


def term_phrases(lexicon: list[str], vocabulary: Vocabulary) -> PhraseMatcher[int]:
    by_terms = {tuple(terms): terms for phrase in lexicon if len(terms := vocabulary.terms(phrase)) > 1}
    return PhraseMatcher({key: term_id(" ".join(map(vocabulary.stem_of, terms))) for key, terms in by_terms.items()})


def test_s4_e1_lexicon_makes_one_term_of_lok_sabha() -> None:
    joined = word_phrases(["Lok Sabha"]).join(tokenize(QUERIES[0]))
    assert joined == ["kejriwal", "new", "manifesto", "for", "lok sabha", "polls", "2014"]


def test_s4_e1_without_a_lexicon_words_stay_apart() -> None:
    assert word_phrases([]).join(["lok", "sabha"]) == ["lok", "sabha"]


def test_s2_24_longest_phrase_wins() -> None:
    phrases = word_phrases(["information retrieval", "information retrieval systems", "retrieval systems"])
    assert phrases.join(["an", "information", "retrieval", "systems", "retrieval", "systems"]) == [
        "an",
        "information retrieval systems",
        "retrieval systems",
    ]


def test_term_phrases_match_inflected_forms() -> None:
    vocabulary = Vocabulary()
    phrases = term_phrases(["web crawler", "web"], vocabulary)
    (match,) = phrases.matches(vocabulary.terms("focused web crawlers"))
    assert match[:2] == (1, 3)
    assert match[2] not in vocabulary.terms("web crawler")


@given(st.lists(st.sampled_from("abc"), max_size=20), st.sets(st.lists(st.sampled_from("abc"), max_size=3).map(tuple)))
def test_matches_do_not_overlap_and_join_keeps_the_rest(tokens: list[str], lexicon: set[tuple[str, ...]]) -> None:
    phrases = PhraseMatcher({parts: "+".join(parts) for parts in lexicon})
    ends = [0]
    for start, end, phrase in phrases.matches(tokens):
        assert start >= ends[-1]
        assert "+".join(tokens[start:end]) == phrase
        ends.append(end)
    assert [part for token in phrases.join(tokens) for part in token.split("+")] == tokens


def test_phrase_matches_pages_and_links_as_a_phrase_s4_e1() -> None:
    vocabulary = Vocabulary(phrases=("Lok Sabha",))
    table = build_topic_table(make_topic("", ["lok sabha"]), vocabulary)
    assert [(k.stem, k.label) for k in table.keywords] == [("lok sabha", "Lok Sabha")]
    judge = CosineJudge(EvolvingTopic(table), PageTerms(vocabulary.terms))

    def score(flow: str, title: str = "") -> float:
        return judge.judge(PageReader(vocabulary).read(Page(url="", flow=flow, title=title))).score

    assert score("Members of the Lok Sabha") > 0.5 and score("Polls", title="Lok Sabha") > 0.5
    assert score("Rajya Sabha, a Lok Adalat, sabha lok") == 0.0
    anchor = f"{LINK_START}Lok Sabha polls{LINK_END}"
    reading = PageReader(vocabulary).read(Page(url="", flow=f"See {anchor} now"))
    start, end = reading.anchors[0]
    assert reading.terms[start:end] == [term_id("lok sabha"), term_id("poll")]
    assert term_id("lok sabha") in UrlTerms(vocabulary).terms("http://a.example/lok-sabha.html")


def test_phrases_are_in_a_copy_of_the_vocabulary_and_survive_eviction() -> None:
    vocabulary = pickle.loads(pickle.dumps(Vocabulary(phrases=("state of the art", "art"), capacity=20)))
    for number in range(100):
        vocabulary.terms(f"word{number}")
    (term,) = vocabulary.terms("The state of the arts")
    assert (vocabulary.stem_of(term), vocabulary.surface_of(term)) == ("state art", "state of the art")
