"""S0's three crawlers as configurations and whole crawls: what is kept of a page, the switches, what each saves."""

from pathlib import Path

import msgspec
import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, page, rows, served, settings_for, word
from opilio.core.settings import Tree
from opilio.engine.wiring.settings import complete_settings
from opilio.fetch.decoding import RecordedResponse
from opilio.topic.setup import resolve_settings

ROOT = "http://a.example/"
HEAD = '<meta name="keywords" content="wren, nest"><meta name="description" content="A small bird">'


def settings_of(strategy: str) -> Tree:
    given = {"strategy": strategy, "topic": {"name": "wrens"}, "seeds": {"urls": [ROOT]}}
    whole: Tree = msgspec.to_builtins(complete_settings(resolve_settings(given)))
    return whole


def test_title_keywords_description_and_url_are_kept_s0_02(tmp_path: Path) -> None:
    with served(SmallWeb({ROOT: page(title="The wren", head=HEAD)})) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    kept = rows(tmp_path / "c", "SELECT title, keywords, description, url FROM page")
    assert kept == [("The wren", "wren, nest", "A small bird", ROOT)]


def test_earlier_crawler_is_the_proposed_one_without_three_switches_s0_05_s0_06() -> None:
    earlier, proposed = settings_of("s0-earlier"), settings_of("s0")
    assert {key for key in proposed if earlier[key] != proposed[key]} == {
        "strategy",
        "order",  # (a) the priority queue
        "seen",  # (b) queue optimisation
        "expansion",  # (c) table expansion
    }
    assert proposed["rank"]["threshold"] > 0.0  # S0-26: both discard links
    assert (earlier["order"]["kind"], proposed["order"]["kind"]) == ("breadth-first", "best-first")
    assert (earlier["seen"]["content"], proposed["seen"]["content"]) == (False, True)
    assert (earlier["expansion"]["kind"], proposed["expansion"]["kind"]) == ("none", "periodic")


def mirrored(stamps: bool = False) -> dict[str, RecordedResponse]:
    """A page, and five copies of it that each lead somewhere else; with a stamp, no two have the same bytes."""
    copies = [f"{ROOT}copy/{n}/wren" for n in range(5)]
    web = {ROOT: page(BIRDS, copies)}
    for n, url in enumerate(copies):
        copy = page(f"{BIRDS} {word(1)}", ["next"])  # the same text, the same anchor, another target
        web[url] = msgspec.structs.replace(copy, body=copy.body + b"<!-- %d -->" % n) if stamps else copy
        web[f"{ROOT}copy/{n}/next"] = page(f"{BIRDS} {word(2 + n)}")
    return web


@pytest.mark.parametrize(
    ("content", "stamps", "fetched"),
    [(True, False, 7), (True, True, 7), ("body", False, 7), ("body", True, 11), (False, False, 11)],
)
def test_fetches_are_saved_when_copies_are_recognised_s0_08_s0_09_x_08(
    tmp_path: Path, content: bool | str, stamps: bool, fetched: int
) -> None:
    """Links of a copy are not followed, and the copy is recorded with what it repeats; S0-E5: its fetch counts.

    The paper's MD5 of the body finds only copies with the same bytes (S0-E6).
    """
    with served(SmallWeb(mirrored(stamps))) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], strategy="s0", seen={"content": content}))
    assert len([a for a in server.log if a.target != "/robots.txt"]) == fetched
    originals = rows(tmp_path / "c", "SELECT DISTINCT o.url FROM page AS p JOIN page AS o ON p.duplicate_of = o.key")
    assert len(originals) == int(fetched == 7)
