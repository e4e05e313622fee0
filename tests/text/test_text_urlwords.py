import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.text.tokens import UrlTerms, url_words
from opilio.text.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://www.example.org/", "example"),
        ("https://www2.uni.ac.at/~smith/cs101/index.html", "uni smith cs 101"),
        (
            "http://birds.example.co.uk:8080/Song_Birds/wren-song.php?id=7&lang=en",
            "birds example song birds wren song id 7 lang en",
        ),
        ("http://e.com/HTMLPages/birdSong", "e html pages bird song"),
        ("http://e.com/caf%C3%A9+bar/%E0%A4", "e café bar"),
        ("http://127.0.0.1/a/b", "127 0 0 1 a b"),
        ("wren/nest.html", "wren nest"),
        ("", ""),
    ],
)
def test_s1_21_words_of_a_url(url: str, expected: str) -> None:
    assert " ".join(url_words(url)) == expected


def test_terms_are_those_of_the_words_when_cached() -> None:
    vocabulary = Vocabulary()
    terms = UrlTerms(vocabulary, capacity=2)
    urls = [f"http://example.org/birds/wrens/{name}.html" for name in ("song", "nests", "song")]
    expected = [[t for w in url_words(url) if (t := vocabulary[w])] for url in urls]
    assert terms.terms_batch(urls) == expected
    assert pickle.loads(pickle.dumps(terms)).terms_batch(urls) == expected


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://e.org/"]))
def test_any_text_gives_words(text: str, prefix: str) -> None:
    assert all(url_words(prefix + text))
