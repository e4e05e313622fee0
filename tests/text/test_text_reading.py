import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import Page, Reading
from opilio.text.reading import (
    BlockContext,
    ContextPolicy,
    PageReader,
    ParagraphContext,
    SentenceContext,
    WindowContext,
    read_page,
)
from opilio.text.vocabulary import Vocabulary

FLOW = "Menu top\x04Cats and \x02big dogs\x03 sleep. Birds sing.\x04\x02\x03 picture\x04last \x02open link"
PAGE = Page(url="http://e.org/", flow=FLOW, boilerplate=(True, False, True, False), language="en-GB")
FLOWS = st.lists(st.sampled_from(["\x02", "\x03", "\x04", "the", "wren.", "sings", "Ærø", " ", "!"]), max_size=40)
POLICIES: list[ContextPolicy] = [
    BlockContext(),
    BlockContext(1),
    WindowContext(2),
    SentenceContext(),
    ParagraphContext(),
]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(normalizer="none")


def shown(vocabulary: Vocabulary, reading: Reading, slices: list[tuple[int, int]]) -> list[str]:
    return [" ".join(map(vocabulary.surface_of, reading.terms[start:end])) for start, end in slices]


def test_reading_holds_anchors_blocks_and_main_text(vocabulary: Vocabulary) -> None:
    reading = read_page(PAGE, vocabulary)
    assert shown(vocabulary, reading, reading.anchors) == ["big dogs", "", "open link"]
    assert shown(vocabulary, reading, reading.link_contexts) == [
        "cats big dogs sleep birds sing",
        "picture",
        "last open link",
    ]
    assert shown(vocabulary, reading, reading.main_slices) == ["cats big dogs sleep birds sing", "last open link"]
    assert reading.language == "en"


def test_window_cuts_the_block_at_both_sides(vocabulary: Vocabulary) -> None:
    """X-06: block, with a limit of words beside the anchor."""
    reading = read_page(PAGE, vocabulary, window=1)
    assert shown(vocabulary, reading, reading.link_contexts) == ["cats big dogs sleep", "picture", "last open link"]


def test_s1_window_crosses_blocks(vocabulary: Vocabulary) -> None:
    reading = PageReader(vocabulary, WindowContext(2)).read(PAGE)
    assert shown(vocabulary, reading, reading.link_contexts)[0] == "top cats big dogs sleep birds"


def test_s3_sentence_ends_at_the_full_stop(vocabulary: Vocabulary) -> None:
    reading = PageReader(vocabulary, SentenceContext()).read(PAGE)
    assert shown(vocabulary, reading, reading.link_contexts)[0] == "cats big dogs sleep"


def test_s2_list_is_taken_whole(vocabulary: Vocabulary) -> None:
    blocks = [
        "intro",
        "first",
        "\x02wren\x03 small",
        "\x02owl\x03 wise",
        "\x02eagle\x03",
        "last",
        "other \x02text\x03 here",
    ]
    page = Page(url="http://e.org/", flow="\x04".join(blocks), lists=((3, 5), (1, 6)))
    reading = PageReader(vocabulary, ParagraphContext()).read(page)
    inner, outer = "owl wise eagle", "first wren small owl wise eagle last"
    assert shown(vocabulary, reading, reading.link_contexts) == [outer, inner, inner, "text"]


def test_empty_anchor_at_the_end_of_a_block_belongs_to_it(vocabulary: Vocabulary) -> None:
    reading = read_page(Page(url="http://e.org/", flow="one\x04two \x02\x03\x04three"), vocabulary)
    assert shown(vocabulary, reading, reading.link_contexts) == ["two"]


def test_link_over_several_blocks_takes_them_all(vocabulary: Vocabulary) -> None:
    reading = read_page(Page(url="http://e.org/", flow="alpha\x04beta \x02gamma\x04delta\x03 mu\x04nu"), vocabulary)
    assert shown(vocabulary, reading, reading.anchors) == ["gamma delta"]
    assert shown(vocabulary, reading, reading.link_contexts) == ["beta gamma delta mu"]


@pytest.mark.parametrize("boilerplate", [(), (True, True, True, True), (True,)])
def test_main_is_everything_when_nothing_is_left(vocabulary: Vocabulary, boilerplate: tuple[bool, ...]) -> None:
    reading = read_page(
        Page(url="http://e.org/", flow="red\x04green\x04blue\x04grey", boilerplate=boilerplate), vocabulary
    )
    assert reading.main_slices == [(0, len(reading.terms))]


def test_language_is_asked_for_when_none_is_declared(vocabulary: Vocabulary) -> None:
    reader = PageReader(vocabulary, identify=lambda text: "xx" if text == "some" else "")
    assert reader.read(Page(url="http://e.org/", flow="some")).language == "xx"
    assert reader.read(Page(url="http://e.org/", flow="some", language="de")).language == "de"
    assert read_page(Page(url="http://e.org/", flow="some"), vocabulary).language == ""


@given(FLOWS, st.lists(st.booleans(), max_size=6), st.sampled_from(POLICIES))
def test_slices_are_in_order_and_inside_for_any_flow(
    pieces: list[str], boilerplate: tuple[bool, ...], policy: ContextPolicy
) -> None:
    vocabulary = Vocabulary()
    flow = " ".join(pieces)
    reading = PageReader(vocabulary, policy).read(Page(url="http://e.org/", flow=flow, boilerplate=tuple(boilerplate)))
    assert reading.terms == vocabulary.terms(flow)
    assert len(reading.anchors) == len(reading.link_contexts) == flow.count("\x02")
    for (start, end), (first, last) in zip(reading.anchors, reading.link_contexts, strict=True):
        assert 0 <= first <= start <= end <= last <= len(reading.terms)
    edges = [edge for bounds in reading.main_slices for edge in bounds]
    assert edges == sorted(edges)
