"""Words of questions and addresses in every script (S1-16, S3-02)."""

from urllib.parse import quote

import pytest

from opilio.seeds.queries import distinctive_words, off_topic_queries, plain_query, sort_by_query_words


@pytest.mark.parametrize(("query", "word"), [("हिन्दी भाषा", "हिन्दी"), ("中国鸟类", "鸟类"), ("Птицы Европы", "птицы")])
def test_address_with_a_word_of_the_query_comes_first_in_every_script(query: str, word: str) -> None:
    urls = ["https://a.example/", f"https://a.example/{quote(word)}/1"]
    assert sort_by_query_words(urls, query)[0] == urls[1]


def test_question_keeps_its_words_in_every_script() -> None:
    assert plain_query('title:"हिन्दी भाषा" -中国鸟类') == "title हिन्दी भाषा 中国鸟类"


def test_sense_with_a_word_of_the_topic_is_no_question_off_it() -> None:
    assert off_topic_queries(["हिन्दी भाषा"], ["हिन्दी फ़िल्म", "संगीत"], limit=1) == ["संगीत"]


def test_pairs_of_characters_separate_relevant_pages() -> None:
    assert distinctive_words(["鸟类", "鸟类", "an ox"], ["汽车"], str.isalpha) == ["鸟类"]
