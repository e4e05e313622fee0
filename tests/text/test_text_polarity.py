"""The polarity of texts (S3-F1), with the lexicon of the extra `opinions`."""

import pytest

from opilio.text.polarity import PolarityLexicon, polarity_of

PRAISE = "A wonderful car: great engine, excellent brakes, comfortable seats. We love it and recommend it happily."
BLAME = "A terrible car: the engine is awful, the brakes fail, and the dealer was rude. We hate it. A sad disaster."


@pytest.mark.parametrize(
    ("text", "language", "polarity"),
    [
        (PRAISE, "en", "positive"),
        (BLAME, "en-GB", "negative"),
        (PRAISE, "", "positive"),  # of an unknown language
        (PRAISE, "de", ""),  # the lexicon is English
        ("", "en", ""),
        ("The engine has six cylinders and was built from 1949 on.", "en", "neutral"),
        ("A great car.", "en", "neutral"),  # too few rated words
        (f"{PRAISE} " + "The model has four doors. " * 200, "en", "neutral"),  # a few words of praise on a long page
    ],
)
def test_polarity_of_a_text_s3_f1(text: str, language: str, polarity: str) -> None:
    assert polarity_of(text, language) == polarity


def test_negation_turns_a_word_round_s3_f1() -> None:
    lexicon = PolarityLexicon({"good": 2.0, "bad": -2.0})
    assert lexicon.label("good " * 9) == "positive"
    assert lexicon.label("It isn\u2019t a good one. " * 9) == "negative"
    assert lexicon.label("not bad at all, never bad. " * 9) == "positive"
