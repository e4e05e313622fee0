"""The lexicon: the shipped one is complete, and a user's own is checked (S2-04, S2-18, S2-25, S2-34, S2-E11)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.errors import TopicError
from opilio.methods.dewey.detect import (
    DeweyClass,
    Lexicon,
    builtin_lexicon,
    digits_of,
    is_number,
    is_related,
    parse_lexicon,
    read_lexicon,
    shorten,
)

TABLE_2 = "400 403 410 412 413 414 415 417 418 419 420 421 422 423 425 427 428 429 490 820".split()

numbers = st.from_regex(r"[0-9]{3}(\.[0-9]{1,6})?", fullmatch=True)
words = st.from_regex(r"[a-z]{3,9}( [a-z]{3,9})?", fullmatch=True)


def test_our_lexicon_has_all_thousand_classes_s2_18() -> None:
    assert {f"{n:03}" for n in range(1000)} <= set(builtin_lexicon().classes)


def test_our_lexicon_has_ten_thousand_terms_s2_e11() -> None:
    assert len(builtin_lexicon().numbers) >= 10_000


def test_classes_with_decimals_divide_most_divisions_s2_f11() -> None:
    classes = builtin_lexicon().classes
    decimals = [number for number in classes if "." in number]
    assert len(decimals) >= 850
    assert len({number[:2] for number in decimals}) >= 86
    assert all(number[:3] in classes for number in decimals)


def test_every_class_in_use_has_terms() -> None:
    bare = [
        entry.number
        for entry in builtin_lexicon().classes.values()
        if not entry.terms and "Not in use" not in entry.name
    ]
    assert bare == []


def test_clothing_has_its_three_numbers_s2_25() -> None:
    assert builtin_lexicon().numbers["clothing"] == ("155.95", "391", "746.92")


@pytest.mark.parametrize("code", TABLE_2)
def test_base_codes_of_the_paper_are_there_in_depth_s2_34(code: str) -> None:
    least = 10 if code == "403" else 20
    assert len(builtin_lexicon().classes[code].terms) >= least


def test_decimals_are_used_where_they_help_s2_f11() -> None:
    assert {"567.9", "598.8", "641.5", "523.4"} <= set(builtin_lexicon().classes)


def test_name_of_a_decimal_without_class_is_its_nearest_class() -> None:
    lexicon = parse_lexicon("598 | Birds | bird\n598.8 | Songbirds | finch\n", "mine")
    assert [lexicon.name_of(n) for n in ("598.87", "598.1", "599")] == ["Songbirds", "Birds", ""]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("59 | Animals | cat", "'59' is not a class number"),
        ("598,8 | Birds | finch", "not a class number"),
        ("598. | Birds | finch", "not a class number"),
        ("598 | | finch", "no name"),
        ("598 | Birds", "2 parts"),
        ("598 | Birds | finch; wren; finch", "'finch' occurs twice"),
        ("595 | Again | crab", "595 occurs twice"),
    ],
)
def test_malformed_line_is_named_with_file_and_line(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(f"# my classes\n595 | Arthropods | spider\n\n{line}\n", encoding="utf-8")
    with pytest.raises(TopicError, match=complaint) as caught:
        read_lexicon(path)
    assert f"{path}, line 4" in str(caught.value)


def test_file_that_is_empty_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n", encoding="utf-8")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("empty.txt", "bytes.txt", "none.txt"):
        with pytest.raises(TopicError, match=name):
            read_lexicon(tmp_path / name)


def test_own_lexicon_replaces_or_adds_to_ours() -> None:
    mine = parse_lexicon("598 | Our birds | dodo; Wren\n", "mine")
    both = parse_lexicon("598 | Birds | wren; finch\n595 | Arthropods | spider\n", "base").merged_with(mine)
    assert both.classes["598"] == DeweyClass("598", "Our birds", ("wren", "finch", "dodo"))
    assert set(both.classes) == {"595", "598"}


def test_other_scheme_of_the_same_shape_s2_04() -> None:
    udc = parse_lexicon("61 | Medicine | fever\n621.396.2 | Radio | aerial\n", "udc", dewey=False)
    assert udc.numbers["aerial"] == ("621.396.2",)


@given(st.dictionaries(numbers, st.lists(words, unique=True, max_size=4), min_size=1, max_size=8))
def test_what_is_written_is_read_back(classes: dict[str, list[str]]) -> None:
    text = "".join(f"{number} | name {number} | {'; '.join(terms)}\n" for number, terms in classes.items())
    lexicon = parse_lexicon(text, "generated")
    assert {n: list(entry.terms) for n, entry in lexicon.classes.items()} == classes
    for term, found in lexicon.numbers.items():
        assert list(found) == sorted(n for n, terms in classes.items() if term in terms)


@given(st.text(max_size=60))
def test_any_text_gives_a_lexicon_or_a_topic_error(text: str) -> None:
    try:
        assert isinstance(parse_lexicon(text, "any"), Lexicon)
    except TopicError as error:
        assert "any" in str(error)


@given(numbers, st.integers(1, 9))
def test_shortened_number_is_a_prefix_of_at_most_that_length(number: str, length: int) -> None:
    short = shorten(number, length)
    assert digits_of(short) == digits_of(number)[:length]
    assert is_number(short, dewey=length >= 3)
    assert is_related(short, number)
    assert is_related(number, short)
