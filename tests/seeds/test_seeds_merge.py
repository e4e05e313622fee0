"""Merging: S0's priorities, S1's and S4's rules, near-identical addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import EngineAnswer, EngineHit, Failure, Seed
from opilio.seeds.merge import (
    Agreement,
    answering_engines,
    join_seed_lists,
    merge_answers,
    order_by_meaning,
    similarity_key,
    vote_priority,
)


def listed(voter: str, *paths: str) -> EngineAnswer:
    hits = tuple(EngineHit(url=f"https://e.example/{path}", rank=i) for i, path in enumerate(paths, 1))
    return EngineAnswer(voter=voter, hits=hits)


S0_11 = [listed("A", "u1", "u2", "u3"), listed("B", "u1", "u2", "u4"), listed("C", "u1", "u5")]
BROKEN = EngineAnswer(voter="D", failure=Failure("limit", "asks to wait"))


def paths(seeds: list[Seed]) -> list[str]:
    return [seed.url.rpartition("/")[2] for seed in seeds]


def priorities(seeds: list[Seed]) -> dict[str, int]:
    return {seed.url.rpartition("/")[2]: seed.priority for seed in seeds}


def test_priorities_are_those_of_the_table_s0_11() -> None:
    assert priorities(merge_answers(S0_11)) == {"u1": 1, "u2": 2, "u3": 3, "u4": 3, "u5": 3}


def test_set_is_ordered_by_priority_then_rank_then_engine_s0_12() -> None:
    assert paths(merge_answers(S0_11)) == ["u1", "u2", "u5", "u3", "u4"]


def test_seed_names_its_voters_in_the_order_of_the_engines() -> None:
    assert [seed.sources for seed in merge_answers(S0_11)][:3] == [("A", "B", "C"), ("A", "B"), ("C",)]


def test_two_of_three_lists_are_enough_s1_15() -> None:
    assert paths(merge_answers(S0_11, "two")) == ["u1", "u2"]


def test_only_what_all_three_show_is_kept_s4_12() -> None:
    assert paths(merge_answers(S0_11, "all")) == ["u1"]


@pytest.mark.parametrize(("agree", "kept"), [("any", 5), ("two", 2), ("all", 1)])
def test_rules_are_filters_of_one_another_x_04(agree: Agreement, kept: int) -> None:
    everything = merge_answers(S0_11)
    assert merge_answers(S0_11, agree) == everything[:kept]


def test_votes_are_counted_over_those_that_answered_when_one_fails() -> None:
    assert merge_answers([*S0_11, BROKEN]) == merge_answers(S0_11)
    two = [S0_11[0], S0_11[1], BROKEN]
    assert priorities(merge_answers(two)) == {"u1": 1, "u2": 1, "u3": 3, "u4": 3}
    assert paths(merge_answers(two, "all")) == ["u1", "u2"]


def test_engine_that_found_nothing_has_answered() -> None:
    assert priorities(merge_answers([*S0_11, EngineAnswer(voter="D")]))["u1"] == 2


def test_engine_that_failed_half_way_has_answered() -> None:
    half = EngineAnswer(voter="D", hits=(EngineHit(url="https://e.example/u1"),), failure=Failure("timeout"))
    assert answering_engines([*S0_11, half]) == ["A", "B", "C", "D"]
    assert priorities(merge_answers([*S0_11, half]))["u1"] == 1


def test_engine_asked_in_two_ways_has_one_vote() -> None:
    assert priorities(merge_answers([listed("A", "u1"), listed("A", "u1", "u2"), listed("B", "u2")])) == {
        "u1": 3,
        "u2": 1,
    }


def test_list_has_no_vote_and_keeps_its_priority() -> None:
    given_ones = EngineAnswer(
        voter="file",
        hits=(EngineHit(url="https://e.example/mine"), EngineHit(url="https://e.example/u3")),
        fixed_priority=1,
    )
    assert priorities(merge_answers([*S0_11, given_ones], "all")) == {"u1": 1, "u3": 1, "mine": 1}
    sitemap = EngineAnswer(
        voter="sitemap",
        hits=(EngineHit(url="https://e.example/u2"), EngineHit(url="https://e.example/s")),
        fixed_priority=3,
    )
    assert priorities(merge_answers([*S0_11, sitemap]))["u2"] == 2
    assert priorities(merge_answers([*S0_11, sitemap]))["s"] == 3


def test_nearly_the_same_address_is_one_seed() -> None:
    a = EngineAnswer(voter="A", hits=(EngineHit(url="http://www.e.example/x/index.html"),))
    b = EngineAnswer(
        voter="B",
        hits=(EngineHit(url="https://e.example/x/?utm_source=b"), EngineHit(url="HTTPS://E.example:443/x/#top")),
    )
    c = EngineAnswer(voter="C", hits=(EngineHit(url="https://e.example/x/"),))
    (seed,) = merge_answers([a, b, c])
    assert (seed.url, seed.priority, seed.sources) == ("https://e.example/x/", 1, ("A", "B", "C"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://en.m.wikipedia.org/wiki/Wren", "https://en.wikipedia.org/wiki/Wren"),
        ("https://a.example/?b=2&a=1", "https://a.example/?a=1&b=2"),
        ("https://a.example", "http://a.example/default.aspx"),
    ],
)
def test_likeness_sees_through_spellings(one: str, other: str) -> None:
    assert similarity_key(one) == similarity_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/wren", "https://a.example/wrens"),
        ("https://a.example/?p=1", "https://a.example/?p=2"),
        ("https://m.example/", "https://www.example/"),
        ("https://b.a.example/", "https://a.example/"),
    ],
)
def test_likeness_keeps_different_addresses_apart(one: str, other: str) -> None:
    assert similarity_key(one) != similarity_key(other)


def test_what_is_no_web_address_is_left_out() -> None:
    assert (
        merge_answers(
            [
                EngineAnswer(
                    voter="A",
                    hits=(EngineHit(url="ftp://e.example/"), EngineHit(url="javascript:x"), EngineHit(url="")),
                )
            ]
        )
        == []
    )


def test_joined_keeps_each_address_where_it_stands_best_s3_02() -> None:
    web, news = merge_answers(S0_11), merge_answers([listed("A", "u3"), listed("B", "u3")], genre="news")
    both = join_seed_lists([web, news])
    assert priorities(both)["u3"] == 1
    assert [seed.genre for seed in both if seed.url.endswith("u3")] == ["news"]
    assert [seed.priority for seed in both] == sorted(seed.priority for seed in both)


ANSWERS = st.lists(
    st.builds(
        lambda voter, paths, failed: EngineAnswer(
            voter=voter, hits=listed(voter, *paths).hits, failure=Failure("timeout") if failed else None
        ),
        st.sampled_from("ABCDE"),
        st.lists(st.sampled_from(["u1", "u2", "u3", "u4"]), max_size=4, unique=True),
        st.booleans(),
    ),
    max_size=6,
)


@given(ANSWERS)
def test_priority_never_falls_when_votes_grow(answers: list[EngineAnswer]) -> None:
    seeds, voters = merge_answers(answers), answering_engines(answers)
    assert len({seed.url for seed in seeds}) == len(seeds)
    for seed in seeds:
        assert seed.priority == vote_priority(len(seed.sources), len(voters))
    assert [s.priority for s in seeds] == sorted(s.priority for s in seeds)
    assert set(map(str, merge_answers(answers, "all"))) <= set(map(str, merge_answers(answers, "any")))


def test_seeds_of_equal_votes_are_ordered_by_place_and_meaning() -> None:
    def seed(name: str, priority: int, votes: int = 1) -> Seed:
        return Seed(url=f"https://en.example/{name}", priority=priority, sources=("a", "b")[:votes])

    found = [seed("Rail_transport", 3), seed("Heron", 3), seed("Sparrow_%28bird%29.html", 3), seed("Tax_law", 3)]
    first = [seed("Steel", 1, 2), seed("Bank_account", 3, 2)]
    ordered = order_by_meaning([*first, *found], "birds: plumage, nests and eggs", "en")
    # Priorities and votes come first, whatever the words.
    assert ordered[:2] == first
    assert [s.url.rpartition("/")[2] for s in ordered[2:4]] == ["Sparrow_%28bird%29.html", "Heron"]
    assert sorted(ordered, key=lambda s: s.url) == sorted([*first, *found], key=lambda s: s.url)


def test_order_by_meaning_keeps_the_order_of_urls_without_known_words() -> None:
    found = [Seed(url=f"https://en.example/{n}", priority=3, sources=("a",)) for n in range(4)]
    assert order_by_meaning(found, "", "en") == found
    assert order_by_meaning([], "birds", "en") == []
