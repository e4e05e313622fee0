"""The registry: kinds by name, their options by their factory, errors that say what to do."""

from typing import Any

import pytest

from opilio.core.errors import ConfigError
from opilio.core.registry import (
    DEFAULT_KINDS,
    RANKERS,
    SECTION_GROUPS,
    build_component,
    complete_section,
    has_plugin,
    kind_options,
    load_plugin,
    plugin_names,
    section_kinds,
)
from opilio.core.settings import convert_settings
from opilio.frontier.policy import BestFirst

KINDS = [(section, kind) for section in SECTION_GROUPS for kind in section_kinds(section)]


@pytest.mark.parametrize(("section", "kind"), KINDS)
def test_every_kind_can_be_imported_and_completed_with_its_defaults(section: str, kind: str) -> None:
    defaults = {name: option.default for name, option in kind_options(section, kind).items()}
    assert complete_section(section, {"kind": kind}) == {"kind": kind, **defaults}


@pytest.mark.parametrize(("section", "kind"), KINDS)
def test_numbers_among_the_options_have_bounds(section: str, kind: str) -> None:
    """An option without bounds accepts, for example, a negative weight and does harm in silence."""
    for name, option in kind_options(section, kind).items():
        assert option.annotation not in (int, float), f"{section}.{name}"


@pytest.mark.parametrize(
    ("section", "tree"),
    [
        ("rank", {"kind": "committee", "explore": -1.0}),
        ("rank", {"kind": "committee", "shrinkage": 0.0}),
        ("rank", {"kind": "linkscore", "tunnel_depth": -2}),
        ("boost", {"kind": "hubs", "lift": -1.0}),
        ("judge", {"kind": "learned", "share": 2.0}),
    ],
)
def test_number_outside_its_bounds_is_refused(section: str, tree: dict[str, Any]) -> None:
    (name,) = tree.keys() - {"kind"}
    with pytest.raises(ConfigError, match=rf"^{section}\.{name}: expected (whole )?number [<>]=? "):
        complete_section(section, tree)


@pytest.mark.parametrize(("section", "kind"), DEFAULT_KINDS.items())
def test_default_kind_exists(section: str, kind: str) -> None:
    assert kind in section_kinds(section)
    assert complete_section(section, {})["kind"] == kind


def test_component_is_built_from_a_completed_section() -> None:
    order = build_component("order", complete_section("order", {"kind": "best-first", "top": 7}))
    assert isinstance(order, BestFirst) and order.max_per_lease == 7


def test_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"rank\.kind = 'comittee': unknown \(did you mean 'committee'\?\); known: "):
        complete_section("rank", {"kind": "comittee"})


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'order\.tap' for kind 'best-first' \(did you mean 'top'\?\)"):
        complete_section("order", {"kind": "best-first", "tap": 1})


def test_names_of_a_group() -> None:
    assert "committee" in plugin_names(RANKERS) and plugin_names("opilio.no_such_group") == []
    assert has_plugin(RANKERS, "tgraph") and not has_plugin(RANKERS, "no-such-ranker")
    with pytest.raises(ConfigError, match="'no-such-ranker': unknown"):
        load_plugin(RANKERS, "no-such-ranker")


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "linkscore", "threshold": 1.5},
        {"kind": "shark", "depth": 0},
        {"kind": "tgraph", "watchdog": 0},
        {"kind": "attributes", "table": 1},
    ],
)
def test_option_is_checked_by_its_own_ranker_only(tree: dict[str, Any]) -> None:
    assert tree.items() <= complete_section("rank", tree).items()


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"kind": "tgraph", "threshold": 1.5}, "rank.threshold: expected number <= 1.0"),
        ({"kind": "tgraph", "depth": 0}, "rank.depth: expected whole number >= 1"),
        ({"kind": "tgraph", "watchdog": -1}, "rank.watchdog: expected whole number >= 0"),
        ({"kind": "context-graph", "least": 2.0}, "rank.least: expected number <= 1.0"),
        ({"kind": "attributes", "table": -3}, "rank.table: expected whole number >= 1"),
        ({"kind": "attributes", "every": -1}, "rank.every: expected whole number >= 0"),
    ],
)
def test_option_out_of_range_is_refused(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        complete_section("rank", tree)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("kind", "option", "value", "problem"),
    [
        ("linkscore", "threshold", 1.5, ""),  # a link score lies in [0, 4], OSM in [0, 1]
        ("linkscore", "threshold", 4.5, r"rank\.threshold: expected number <= 4"),
        ("tgraph", "threshold", 1.5, r"rank\.threshold: expected number <= 1"),
        ("shark", "depth", 0, ""),
        ("fish", "depth", 0, ""),
        ("attributes", "table", -3, r"rank\.table: expected whole number >= 1"),
    ],
)
def test_each_ranker_has_its_own_limits_s0_26(kind: str, option: str, value: float, problem: str) -> None:
    section = {"kind": kind, option: value}
    if problem:
        with pytest.raises(ConfigError, match=problem):
            complete_section("rank", section)
    else:
        assert complete_section("rank", section)[option] == value


def test_unknown_choice_of_a_setting_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"a\.toml: topic\.around: invalid enum value 'page'; choose one of block, "):
        convert_settings({"topic": {"around": "page"}}, "a.toml")
    with pytest.raises(ConfigError, match=r"a\.toml: stop\.pages: expected whole number, got string$"):
        convert_settings({"stop": {"pages": "all"}}, "a.toml")


def test_unknown_choice_of_an_option_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"judge\.norm = 'pages': unknown; choose one of page, topic, whole"):
        complete_section("judge", {"kind": "cosine", "norm": "pages"})
