"""The galaxy of dots: weights, smoothing, outliers, topic (S2-19, S2-21, S2-22, S2-25, S2-26, S2-E6, S2-E7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.methods.dewey.detect import (
    PAPER_RULE,
    RECOMMENDED_RULE,
    Dot,
    Galaxy,
    GalaxyRule,
    LexiconHit,
    builtin_lexicon,
    dots_from_hits,
    find_galaxy,
    first_galaxy,
)
from opilio.methods.dewey.view import draw_dots

CLOTHING = LexiconHit(0, 1, "clothing", ("155.95", "391", "746.92"))

dots = st.lists(
    st.builds(
        Dot,
        word=st.sampled_from("abcdef"),
        number=st.from_regex(r"[0-9]{3}(\.[0-9]{1,3})?", fullmatch=True),
        in_anchor=st.booleans(),
        among=st.integers(1, 4),
        rarity=st.floats(0.25, 1.0),
    ),
    max_size=30,
)


def scores(found: Galaxy) -> dict[str, object]:
    return {code: pytest.approx(score) for code, score in (*found.ranked, *found.outliers)}


def test_word_with_several_numbers_gives_a_dot_for_each_s2_25() -> None:
    assert [(d.x, d.y) for d in dots_from_hits([CLOTHING], max_length=5)] == [(5, 155.95), (3, 391.0), (5, 746.92)]
    assert [d.number for d in dots_from_hits([CLOTHING])] == ["155", "391", "746"]


def test_numbers_equal_after_the_cut_are_one_dot() -> None:
    assert dots_from_hits([LexiconHit(0, 1, "owl", ("598", "598.9"))]) == [Dot("owl", "598")]


def test_defaults_are_those_of_table_5_s2_37() -> None:
    assert (PAPER_RULE.max_length, PAPER_RULE.anchor_impact, PAPER_RULE.ambiguity, PAPER_RULE.repeats) == (
        3,
        1.4,
        0.0,
        1.0,
    )
    assert RECOMMENDED_RULE.ambiguity == 1.0


def test_worked_example_of_the_cell_score_s2_e6() -> None:
    # 415: 2 own; 41x: 1 more; 4xx: 1 more => 2 + 0.5 + 0.25. 598 has its own only.
    found = find_galaxy(
        [Dot("noun", "415"), Dot("verb", "415"), Dot("vowel", "414"), Dot("english", "420"), Dot("owl", "598")]
    )
    assert scores(found) == {"415": 2.75, "414": 2.25, "420": 1.75, "598": 1.0}
    assert found.code == "415"


def test_anchor_word_weighs_1_4_s2_22() -> None:
    assert find_galaxy([Dot("noun", "415", in_anchor=True), Dot("owl", "598")]).ranked == (("415", 1.4), ("598", 1.0))


def test_anchor_impact_below_one_turns_the_order_s2_e7() -> None:
    found = find_galaxy([Dot("noun", "415", in_anchor=True), Dot("owl", "598")], GalaxyRule(anchor_impact=0.5))
    assert found.ranked == (("598", 1.0), ("415", 0.5))


def test_longer_number_weighs_more_and_is_named_s2_21() -> None:
    found = find_galaxy([Dot("finch", "598.8"), Dot("crab", "595")], GalaxyRule(max_length=5))
    assert found.ranked[0].code == "598.8"
    assert found.ranked[0].score == pytest.approx(1.1 + 0.5)


def test_number_is_named_no_deeper_than_half_of_its_mass() -> None:
    found = find_galaxy([Dot("finch", "598.8"), Dot("owl", "598.9")], GalaxyRule(max_length=5))
    assert found.code == "598"


def test_ambiguous_word_counts_less_when_asked() -> None:
    shared = [Dot("clothing", "391", among=3), Dot("owl", "598")]
    assert find_galaxy(shared).code == "391"  # the paper counts both alike: the lower number stands first
    assert find_galaxy(shared, RECOMMENDED_RULE).code == "598"


def test_repeated_word_counts_less_when_asked() -> None:
    repeated = [Dot("owl", "598")] * 4 + [Dot("noun", "415"), Dot("verb", "415"), Dot("clause", "415")]
    assert find_galaxy(repeated).code == "598"
    assert find_galaxy(repeated, GalaxyRule(repeats=0.5)).code == "415"


def test_cells_below_a_quarter_of_the_best_are_outliers_s2_26() -> None:
    found = find_galaxy([Dot(word, "415") for word in "abcde"] + [Dot("owl", "598")])
    assert [cell.code for cell in found.ranked] == ["415"]
    assert [cell.code for cell in found.outliers] == ["598"]


@pytest.mark.parametrize(("topic", "expected"), [("4", True), ("415", True), ("415.2", True), ("416", False)])
def test_on_topic_by_prefix_either_way_s2_e6(topic: str, expected: bool) -> None:
    assert find_galaxy([Dot("noun", "415")]).on_topic({topic}) is expected


def test_on_topic_can_ask_more_than_the_best_class() -> None:
    found = find_galaxy([Dot("noun", "415", in_anchor=True), Dot("owl", "598")])
    assert not found.on_topic(["598"])
    assert found.on_topic(["598"], top=2)


def test_empty_window_is_widened_and_else_unknown() -> None:
    assert first_galaxy([[], [Dot("noun", "415")], [Dot("owl", "598")]]).code == "415"
    unknown = first_galaxy([[], []])
    assert (unknown.code, unknown.on_topic(["4"])) == ("", False)


@given(dots, st.sampled_from([PAPER_RULE, RECOMMENDED_RULE, GalaxyRule(max_length=6, ambiguity=1.0)]))
def test_every_cell_is_ranked_or_an_outlier_and_order_does_not_matter(found: list[Dot], rule: GalaxyRule) -> None:
    galaxy = find_galaxy(found, rule)
    cells = [code[:3] for code, _ in (*galaxy.ranked, *galaxy.outliers)]
    assert sorted(cells) == sorted({dot.number[:3] for dot in found})
    assert [s for _, s in galaxy.ranked] == sorted((s for _, s in galaxy.ranked), reverse=True)
    again = find_galaxy(found[::-1], rule)
    assert scores(again).keys() == scores(galaxy).keys()


@given(dots)
def test_dot_added_to_the_galaxy_keeps_it_there(found: list[Dot]) -> None:
    best = find_galaxy(found).code
    if best:
        assert find_galaxy([*found, Dot("more", best)]).code == best


@given(dots)
def test_picture_has_a_line_for_every_cell(found: list[Dot]) -> None:
    drawn = draw_dots(found, find_galaxy(found))
    assert len(drawn.splitlines()) == len({dot.number[:3] for dot in found}) + 1  # the head, or "no dots"


def test_picture_shows_length_against_number_s2_19() -> None:
    found = [Dot("owl", "598.9", in_anchor=True), *(Dot(word, "598") for word in "abcde"), Dot("noun", "415")]
    assert draw_dots(found, find_galaxy(found)).splitlines() == [
        "     3       4",
        "598  ooooo   *       owl, a, b, c …  <- galaxy",
        "415  o               noun  (outlier)",
    ]
    assert draw_dots([], Galaxy()).startswith("no dots")


def test_hundreds_of_words_have_numbers_in_several_classes_s2_25_s2_f4() -> None:
    """A galaxy has something to decide: a ring is in algebra and in metalwork, a bond in finance and in chemistry."""
    numbers = builtin_lexicon().numbers
    several = [term for term, found in numbers.items() if " " not in term and len({n[:3] for n in found}) > 1]
    assert len(several) > 300
    assert {"python", "jaguar", "mercury", "cell", "crane", "ring", "bond", "iris"} <= set(several)
