"""`opilio topic dewey` and `topic build --dewey` (S2-02, S2-19, S2-23, S2-25)."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from checks.small_webs import SmallWeb, one_line, opilio, page, served
from opilio.core.errors import UsageError
from opilio.core.records import FetchResult
from opilio.core.settings import Settings
from opilio.manage.status import collection_status
from opilio.methods.dewey.detect import PAPER_RULE, Dot, Galaxy, builtin_lexicon, find_galaxy
from opilio.methods.dewey.view import build_dewey_view, plot_dots
from opilio.parse.html import HtmlParser

WRENS = "The wren is a small bird; wrens and other songbirds build nests. Clothing."


def result(place: Path, *arguments: object) -> dict[str, Any]:
    done = opilio("topic", "dewey", *arguments, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_text_is_shown_with_dots_galaxy_and_classes_s2_19(tmp_path: Path) -> None:
    done = opilio("topic", "dewey", WRENS, cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["3", "4", "5"]
    assert any(re.match(r"598 .*wren.*<- galaxy", line) for line in lines)
    assert any(re.match(r"391 .*clothing.*outlier", line) for line in lines)
    assert re.match(r"598\S* +[\d.]+  \w+", lines[-1])


def test_json_has_every_dot_of_a_word_with_several_numbers_s2_25(tmp_path: Path) -> None:
    found = result(tmp_path, "clothing clothing")
    dots = [(dot["word"], dot["number"], dot["count"]) for dot in found["dots"]]
    assert dots == [("clothing", "155.95", 2), ("clothing", "391", 2), ("clothing", "746.92", 2)]


def test_page_is_fetched_and_its_links_have_classes(tmp_path: Path) -> None:
    url = "http://birds.example/wren"
    with served(SmallWeb({url: page(WRENS, ["http://birds.example/trombone"])})) as server:
        found = result(tmp_path, url, "--proxy", server.proxy, "--allow-private")
        lost = opilio("topic", "dewey", url + "s", "--proxy", server.proxy, "--allow-private", cwd=tmp_path)
    assert found["galaxy"][:3] == "598"
    assert found["links"] == [{"anchor": "trombone", "url": "http://birds.example/trombone", "galaxy": "788.9"}]
    assert lost.returncode == 2
    assert "can't be fetched (status 404)" in one_line(lost)


def test_link_is_plotted_from_its_words_to_the_end_of_its_list_s2_23() -> None:
    markup = b"""<p>Birds: <a href="/1">wren</a> and trombone.</p>
    <ul><li>nest <a href="/2">trumpet</a></li><li><a href="/3">violin</a></li><li>whale</li></ul>"""
    fetched = FetchResult(url="http://a.example/", status=200, headers=(("Content-Type", "text/html"),), body=markup)
    view = build_dewey_view(HtmlParser(lists=True).parse(fetched), Settings(), PAPER_RULE)
    first, second, third = (galaxy for _, _, galaxy in view.links)
    cells = [{code for code, _ in (*g.ranked, *g.outliers)} for g in (first, second, third)]
    assert cells[0] == {"598", "788"}
    assert cells[1] == {"788", "787", "599", "639"}
    assert cells[2] == {"787", "599", "639"}


def test_figure_is_written_as_svg_and_png(tmp_path: Path) -> None:
    done = opilio("topic", "dewey", WRENS, "--plot", "wren.svg", cwd=tmp_path)
    assert done.returncode == 0
    svg = (tmp_path / "wren.svg").read_text()
    assert "galaxy: 598" in svg and "length of the D-number" in svg and "Science" in svg
    dots = [Dot("wren", "598.8", in_anchor=True), Dot("clothing", "391")]
    for name in ("a.png", "b.png"):
        plot_dots(dots, find_galaxy(dots), builtin_lexicon(), tmp_path / name, "wrens")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_figure_of_no_dots_says_so_and_bad_names_are_refused(tmp_path: Path) -> None:
    plot_dots([], Galaxy(), builtin_lexicon(), tmp_path / "none.svg")
    assert "no dots" in (tmp_path / "none.svg").read_text()
    for name in ("wren.pdf", "no/folder/wren.png"):
        with pytest.raises(UsageError, match="--plot"):
            plot_dots([], Galaxy(), builtin_lexicon(), tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "give either a text"),
        (("wren", "--file", "x.html"), "give either a text"),
        (("--file", "x.html"), "--file 'x.html': can't be read"),
        (("wren", "--lexicon", "mine.txt"), "mine.txt, line 1: '59' is not a class number"),
    ],
)
def test_what_can_not_be_used_is_reported_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "mine.txt").write_text("59 | Animals | wren\n")
    done = opilio("topic", "dewey", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in one_line(done)


def test_lexicon_of_another_scheme_is_used_s2_04(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("59 | Animals | wren\n78 | Music | wren; song\n")
    found = result(tmp_path, "wren song", "--lexicon", "mine.txt", "--lexicon-use", "other-scheme")
    assert found["galaxy"] == "78"


def test_topic_file_is_built_from_classes(tmp_path: Path) -> None:
    done = opilio("topic", "build", "--dewey", "598", "--dewey", "599", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    topic = tomllib.loads((tmp_path / "topic.toml").read_text())["topic"]
    assert topic["dewey"] == ["598", "599"]
    assert topic["name"] == "Birds; Mammals"
    assert {"bird", "mammal"} <= topic["keywords"].keys()


@pytest.mark.parametrize("wrong", ["bird", "9999", "1234567", "59.8", "598."])
def test_class_is_three_digits_and_decimals_or_a_beginning(tmp_path: Path, wrong: str) -> None:
    done = opilio("topic", "build", "--dewey", wrong, cwd=tmp_path)
    assert done.returncode == 2
    assert f'topic.dewey "{wrong}": not a class' in one_line(done)
    assert not (tmp_path / "b.toml").exists()


def test_crawl_follows_a_topic_given_as_classes(tmp_path: Path) -> None:
    site = "http://birds.example/"
    with served(SmallWeb({site: page(WRENS), "http://birds.example/robots.txt": page("")})) as server:
        crawl = ["crawl", "--seed", site, "--proxy", server.proxy, "--workers", "0", "--quiet"]
        done = opilio(*crawl, "--set", 'topic.dewey=["598"]', "--set", 'judge.kind="dewey"', cwd=tmp_path)
        other = opilio(*crawl, "--set", 'topic.dewey=["599"]', "--into", "dewey-598", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 relevant" in done.stdout
    assert collection_status(tmp_path / "dewey-598").topic == "Birds"
    assert other.returncode == 2
    assert "topic.dewey ['599']: dewey-598 was started with ['598']" in one_line(other)


@pytest.mark.parametrize("given", ["topic.dewey=598", "topic=598", 'topic.dewey=["59x"]', "topic.dewey=[598]"])
def test_classes_that_are_invalid_are_reported_in_one_line(tmp_path: Path, given: str) -> None:
    done = opilio("crawl", "--seed", "http://birds.example/", "--set", given, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "topic" in one_line(done)
    assert list(tmp_path.iterdir()) == []
