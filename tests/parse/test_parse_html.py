from collections.abc import Callable
from typing import get_args

import pytest

from opilio.core.errors import ParseError
from opilio.core.protocols import Parser
from opilio.core.records import BLOCK_BREAK, FetchResult, Page
from opilio.core.settings import HtmlLibrary
from opilio.parse.html import HtmlParser
from opilio.testing.stages import URL, ParserChecks, answer, check_page

PageOf = Callable[..., Page]
Blocks = Callable[[str], list[str]]


class TestHtmlParser(ParserChecks):
    pass


@pytest.fixture
def page_of(parser: Parser) -> PageOf:
    def read(body: str | bytes, content_type: str = "text/html; charset=utf-8", **headers: str) -> Page:
        page = parser.parse(answer(body, content_type, **headers))
        check_page(page)
        return page

    return read


@pytest.fixture
def blocks_of(page_of: PageOf) -> Blocks:
    return lambda body: page_of(body).flow.replace("\x02", "[").replace("\x03", "]").split(BLOCK_BREAK)


def test_head_is_read(page_of: PageOf) -> None:
    page = page_of(
        '<html lang="en-GB"><title> The\n Wren </title><meta name=Description content="small &amp; loud">'
        "<meta name=keywords content='bird, wren'><link rel=canonical href=/wren>"
        "<meta property=article:published_time content=2026-01-02>"
    )
    assert (page.title, page.description, page.keywords) == ("The Wren", "small & loud", "bird, wren")
    assert (page.language, page.canonical, page.published) == ("en-GB", "http://example.org/wren", "2026-01-02")
    assert (page.content_type, page.encoding) == ("text/html", "utf-8")


def test_blocks_end_at_paragraphs_items_cells_headings_s2_23(blocks_of: Blocks) -> None:
    body = (
        "<h2>Head</h2>one<p>two <b>bo</b>ld<br>line<ul><li>a<li>b</ul><table><tr><td>c<td>d</table><div>e<div>f</div>g"
    )
    assert blocks_of(body) == ["Head", "one", "two bold line", "a", "b", "c", "d", "e", "f", "g"]


LISTS = {
    "<ul><li>no link<li><a href=/x>x</a><li>none</ul><p>between<ul><li>b</ul>": [["no link", "x", "none"], ["b"]],
    "<ol><li><p>one<p>two<li>three<ul><li>in</ul></ol>": [["in"], ["one", "two", "three", "in"]],
    "<dl><dt>term<dd>said</dl><menu><li>m</menu>": [["term", "said"], ["m"]],
    "<table><tr><td>a<td>b<tr><td>c</table><table><tr><td><p>layout</table>": [["a", "b", "c"]],
    "top<nav><ul><li>home</ul></nav><ul></ul><p>\x0eend": [["home"]],
    "<a href=/x><ul><li>in a link</ul></a><ul><li>next</ul>": [["next"]],
}


@pytest.mark.parametrize("library", get_args(HtmlLibrary))
@pytest.mark.parametrize("markup", LISTS)
def test_lists_are_found_by_the_structure_s2_23(markup: str, library: HtmlLibrary) -> None:
    page = HtmlParser(lists=True, library=library).parse(answer(markup))
    plain = HtmlParser(library=library).parse(answer(markup))
    blocks = page.flow.replace("\x02", "").replace("\x03", "").split(BLOCK_BREAK)
    assert [blocks[start:end] for start, end in page.lists] == LISTS[markup]
    assert plain.flow.replace("\x0e", "") == page.flow
    assert (plain.boilerplate, plain.lists) == (page.boilerplate, ())


def test_type_of_a_sphinx_parameter_is_apart_from_its_name(blocks_of: Blocks) -> None:
    markup = '<dl><dt><strong>rule</strong><span class="classifier">str, optional</span></dt><dd>The offset.</dd></dl>'
    assert blocks_of(markup) == ["rule : str, optional", "The offset."]


def test_scripts_styles_templates_and_forms_choices_are_no_text(blocks_of: Blocks) -> None:
    body = "<p>a<script>b</script><style>c</style><template>d</template><select><option>e</select><!-- f > g -->h"
    assert blocks_of(body) == ["ah"]


def test_noscript_and_literal_text_are_text(blocks_of: Blocks) -> None:
    body = "<noscript><a href=n>no script</a></noscript><pre>x  &lt;\n y</pre><xmp><b>z</xmp><code>q</code>"
    assert blocks_of(body) == ["[no script]", "x < y", "<b>z", "q"]


def test_own_marks_and_white_space_are_removed_from_text(blocks_of: Blocks) -> None:
    assert blocks_of("<p>a\x02b&#3;c\x04 &nbsp; d\n\te&#5;\x00f") == ["abc d ef"]


def test_entities_are_characters_once(blocks_of: Blocks) -> None:
    assert blocks_of("<p>&amp;lt; &lt;b&gt; &eacute;") == ["&lt; <b> é"]


def test_links_are_resolved_against_base_s0_29(page_of: PageOf) -> None:
    page = page_of("<base href=/other/place/><a href=x.html>x</a><a href=../y>y</a>")
    assert [link.url for link in page.links] == ["http://example.org/other/place/x.html", "http://example.org/other/y"]


def test_unusable_and_own_addresses_are_no_links(blocks_of: Blocks) -> None:
    body = (
        "<a href='mailto:a@b'>m</a> <a href='#top'>t</a> <a href=''>e</a> <a name=n>n</a> <a href=x>x</a> "
        "<a href='javascript:1'>j</a>"
    )
    assert blocks_of(body) == ["m t e n [x] j"]


def test_anchor_of_picture_link_is_its_alt_or_title(page_of: PageOf) -> None:
    page = page_of(
        "<a href=1><img alt='a wren'></a><a href=2 title=two><i></i></a><a href=3>text<img alt=no></a><a href=4></a>"
    )
    assert [link.anchor for link in page.links] == ["a wren", "two", "text", ""]


def test_maps_and_frames_are_links(page_of: PageOf) -> None:
    page = page_of("<map><area href=m alt=Map></map><iframe src=i title=Inner>raw <a href=no></iframe>")
    assert [(link.url[-1], link.anchor) for link in page.links] == [("m", "Map"), ("i", "Inner")]
    page = page_of("<frameset><frame src=l name=left><frame src=r><noframes><a href=no>x</a></noframes></frameset>")
    assert [(link.url[-1], link.anchor) for link in page.links] == [("l", "left"), ("r", "")]


def test_refresh_next_and_previous_are_links_without_text(page_of: PageOf) -> None:
    page = page_of(
        "<meta http-equiv=Refresh content=\"5; URL='/new'\"><link rel='next' href=2 title=More>"
        "<link rel=stylesheet href=c><p>text"
    )
    assert [(link.url[18:], link.rel, link.anchor) for link in page.links] == [
        ("/birds/2", "next", "More"),
        ("/new", "refresh", ""),
    ]
    assert page.main_text == "text"


@pytest.mark.parametrize(
    ("own", "wanted", "expected"),
    [
        ("de", {"en"}, ["/en"]),
        ("en", {"en"}, []),
        ("", {"en", "fr"}, ["/en", "/fr"]),
        ("de", {"fi"}, ["/all"]),
        ("fi", {"fi"}, []),
        ("de", set(), []),
    ],
)
def test_page_in_a_wanted_language_is_a_link(own: str, wanted: set[str], expected: list[str]) -> None:
    tags = ("en-AU", "en", "fr", "x-default")
    named = {"en-AU": "/au", "x-default": "/all"}
    links = "".join(f"<link rel=alternate hreflang={tag} href={named.get(tag, f'/{tag}')}>" for tag in tags)
    page = HtmlParser(languages=wanted).parse(answer(f"<html lang='{own}'><title>Wrens</title>{links}x"))
    assert [(link.url.removeprefix("http://example.org"), link.anchor) for link in page.links] == [
        (path, "Wrens") for path in expected
    ]


def test_rel_is_recorded_and_link_kept_when_nofollow(page_of: PageOf) -> None:
    assert page_of("<a rel='NoFollow ugc' href=x>x</a>").links[0].rel == "nofollow ugc"


def test_headings_above_link_s2_e1(page_of: PageOf) -> None:
    page = page_of(
        "<a href=0>0</a><h1>Main</h1><h2>Section</h2><h4>Sub</h4><a href=1>1</a><h2>Next <a href=2>2</a></h2>"
    )
    assert page.headings == ((1, "Main"), (2, "Section"), (4, "Sub"), (2, "Next 2"))
    assert [link.headings for link in page.links] == [
        ("", "", "Main"),
        ("Sub", "Section", "Main"),
        ("Next 2", "Main", "Main"),
    ]


def test_main_heading_is_title_when_there_is_no_h1(page_of: PageOf) -> None:
    assert page_of("<title>T</title><h2>S</h2><a href=x>x</a>").links[0].headings == ("S", "", "T")


def test_tag_path_has_classes_ids_without_numbers(page_of: PageOf) -> None:
    page = page_of(
        "<div id=post-1234 class='a b c'><ul class=menu><li><a href=1>1</a></li><li><b><a href=2>2</a></b></ul></div>"
    )
    assert [link.tag_path for link in page.links] == [
        "div#post-0.a.b>ul.menu>li>a",
        "div#post-0.a.b>ul.menu>li>b>a",
    ]


def test_tag_path_is_bounded_when_nesting_is_deep(page_of: PageOf) -> None:
    page = page_of("<div>" * 30 + "<p><a href=x>x</a>")
    assert page.links[0].tag_path == "div>" * 7 + "p>a"


def test_surroundings_and_menus_are_boilerplate(page_of: PageOf) -> None:
    body = (
        "<header><h1>Site</h1></header><nav><p>menu</nav><ul><li><a href=1>one</a><li><a href=2>two</a></ul>"
        "<article><header><h1>Wren</h1></header><p>Text with <a href=3>link</a> in it.</article>"
        "<h2><a href=4>Head</a></h2><p>more</p><aside>ad</aside><footer>foot"
    )
    assert page_of(body).main_text == "Wren\nText with link in it.\nHead\nmore"


def test_main_text_is_all_text_when_all_is_boilerplate(page_of: PageOf) -> None:
    assert page_of("<ul><li><a href=1>one</a><li><a href=2>two</a></ul>").main_text == "one\ntwo"


def test_link_around_blocks_becomes_one_block(blocks_of: Blocks) -> None:
    assert blocks_of("before<a href=x><h3>Head</h3><p>text</p></a>after") == ["before", "[Head text]", "after"]


def test_nested_links_become_neighbours(blocks_of: Blocks) -> None:
    body = "<a href=1>one<object><a href=2>two</a></object>rest</a>"
    assert blocks_of(body) == ["[one][two]rest"]


@pytest.mark.parametrize(
    "body",
    [
        "<a href=1><object><a href=2></a></object></a>",
        "<math><iframe src=f>x<area href=m></math>",
        "<a href=1><nav>x</a>y</nav>z",
        "<a\x04>x",
    ],
    ids=["link-in-textless-link", "frame-in-formula", "link-ends-in-navigation", "mark-in-tag"],
)
def test_found_by_fuzzing(page_of: PageOf, body: str) -> None:
    page_of(body)


@pytest.mark.parametrize(
    ("markup", "headers", "noindex", "nofollow"),
    [
        ("<meta name=robots content='NOINDEX'>", {}, True, False),
        ("<meta name=Robots content='none'>", {}, True, True),
        ("<meta name=opilio content='nofollow'>", {}, False, True),
        ("<meta name=otherbot content='noindex'>", {}, False, False),
        ("", {"X_Robots_Tag": "noindex, nofollow"}, True, True),
        ("<meta name=robots content='max-image-preview:large'><meta name=robots content='noindex'>", {}, True, False),
        ("<meta name=robots content='noindex nofollow'>", {}, True, True),
        ("", {"X_Robots_Tag": "max-snippet:50, noindex, nofollow"}, True, True),
        ("", {"X_Robots_Tag": "*: noindex"}, True, False),
        ("", {"X_Robots_Tag": "googlebot: nofollow, opilio: noindex"}, True, False),
        ("", {"x_robots_tag": "otherbot: noindex"}, False, False),
        ("", {"X_Robots_Tag": "Opilio: noindex"}, True, False),
        ("", {"X_Robots_Tag": "unavailable_after: 25 Jun 2010 15:00:00 PST"}, False, False),
    ],
)
def test_robots_directives_are_read(
    page_of: PageOf, markup: str, headers: dict[str, str], noindex: bool, nofollow: bool
) -> None:
    page = page_of(markup, **headers)
    assert (page.noindex, page.nofollow) == (noindex, nofollow)


def test_sections_of_mere_text_are_read_in_xhtml(page_of: PageOf) -> None:
    body = b"<p><![CDATA[a <b>wren</b> & more]]></p><script><![CDATA[if (a < b) {}]]></script><p>next</p>"
    assert page_of(body, "application/xhtml+xml").text == "a <b>wren</b> & more\nnext"
    assert page_of(b"<p>one<![CDATA[ two</p><p>three</p>", "application/xhtml+xml").text == "one\nthree"


def test_xhtml_elements_closed_at_once_do_not_swallow_the_page(page_of: PageOf) -> None:
    body = '<html><head><script src="x"/><title/></head><body><a id="t"/><p>text</p></body></html>'
    assert page_of(body, "application/xhtml+xml").text == "text"


def test_missing_content_type_is_sniffed(page_of: PageOf, parser: Parser) -> None:
    assert page_of("<!DOCTYPE html><p>a", "").text == "a"
    assert page_of("just words", "").text == "just words"
    with pytest.raises(ParseError, match="content-type: none"):
        parser.parse(answer(b"MZ\x90\x00\x03", ""))


def test_binary_body_sent_as_html_is_refused(parser: Parser) -> None:
    with pytest.raises(ParseError, match="content-type: text/html"):
        parser.parse(answer(b"\x89PNG ..."))
    with pytest.raises(ParseError, match="content-type: text/html"):
        parser.parse(answer(b"PK\x03\x04 ..."))


def test_address_that_is_invalid_is_refused(parser: Parser) -> None:
    with pytest.raises(ParseError, match="url"):
        parser.parse(answer("x", url="ftp://example.org/"))


def test_links_are_bounded_and_the_rest_counted() -> None:
    body = "".join(f"<a href={i}>{i}</a> " for i in range(30))
    page = HtmlParser(max_links=20).parse(answer(body))
    check_page(page)
    assert (len(page.links), page.links_dropped) == (20, 10)
    assert page.text == " ".join(map(str, range(30)))


def test_characters_of_links_are_bounded(parser: Parser) -> None:
    """A page of 24 KB would bring 9.5 MB of URLs into the queue."""
    links = "".join(f"<a href={i}>{i}</a> " for i in range(5_000))
    page = parser.parse(answer(f'<base href="/{"y" * 1_900}/">{links}'))
    check_page(page)
    assert 900_000 < sum(len(link.url) for link in page.links) <= 1_000_000
    assert len(page.links) + page.links_dropped == 5_000
    assert len(parser.parse(answer(links)).links) == 5_000


def test_language_is_bounded(parser: Parser) -> None:
    assert len(parser.parse(answer(f'<html lang="{"x" * 100_000}"><p>wren')).language) == 100


def test_links_of_the_head_are_bounded_too(parser: Parser) -> None:
    page = parser.parse(answer("".join(f"<link rel=next href={i}>" for i in range(1000))))
    check_page(page)
    assert (len(page.links), page.links_dropped) == (20, 980)


@pytest.mark.parametrize(
    "body",
    [
        "<div>" * 50_000 + "<a href=x>x</a>",
        "<b><i>" * 25_000 + "<a href=x>x</a>",
        "<table><tr><td>" * 20_000 + "<a href=x>x</a>",
        "<a href=x>" * 30_000,
        "<p " + " ".join(f"a{i}=1" for i in range(100_000)) + "><a href=x>x</a>",
        "".join(f"<font color={i}><p>" for i in range(20_000)) + "<a href=x>x</a>",
        "<svg>" * 20_000,
        "<a href=x title='" + "y" * 300_000,
        "&amp;" * 50_000 + "<a href=x>" + "x" * 50_000,
    ],
    ids=["nesting", "formatting", "tables", "anchors", "attributes", "reopened", "foreign", "open-quote", "entities"],
)
def test_hostile_page_gives_bounded_page(page_of: PageOf, body: str) -> None:
    page = page_of(body)
    assert len(page.flow) < 2 * len(body)
    assert len(page.links) <= 5_000


def test_own_address_is_canonical_in_page(parser: Parser) -> None:
    assert parser.parse(answer("x", url="HTTP://EXAMPLE.org:80/birds/./wren.html#a")).url == URL


def test_comment_without_end_does_not_swallow_the_page(parser: Parser) -> None:
    fetched = FetchResult(
        url="http://example.org/",
        status=200,
        headers=(("Content-Type", "text/html"),),
        body=b"<p>before<!-- a note ><p>after <a href=/x.html>a link</a>",
    )
    page = parser.parse(fetched)
    assert [link.url for link in page.links] == ["http://example.org/x.html"]
    assert "after" in page.text


@pytest.mark.parametrize("around", ["rp", "ruby><rp", "rp><rp", "details><rp", "math><mtext", "svg><desc", "noscript"])
def test_link_in_an_element_without_text_keeps_the_page(page_of: PageOf, around: str) -> None:
    page = page_of(f"<p>wren<{around}><a href=/m>robin</a>")
    assert [link.anchor for link in page.links] in (["robin"], [])
    assert "wren" in page.main_text
    if "rp" in around:
        assert [link.anchor for link in page.links] == ["robin"]


def test_declarative_shadow_root_is_content_and_other_templates_are_not(parser: Parser) -> None:
    body = (
        b"<h1>Birds</h1><bird-card><template shadowrootmode='open'><p>A <a href='/wren'>wren</a></p></template>"
        b"light</bird-card><template><a href='/inert'>inert</a></template><p>after"
    )
    page = parser.parse(FetchResult(url="http://a.example/", headers=(("Content-Type", "text/html"),), body=body))
    assert [link.url for link in page.links] == ["http://a.example/wren"]
    assert page.text.split() == ["Birds", "A", "wren", "light", "after"]
