from opilio.core.records import Page
from opilio.parse.html import HtmlParser
from opilio.testing.stages import answer, check_page


def plain(text: str, max_links: int = 5_000) -> Page:
    page = HtmlParser(max_links=max_links).parse(answer(text, "text/plain; charset=utf-8"))
    check_page(page)
    return page


def test_blocks_end_at_blank_lines() -> None:
    assert plain("one\ntwo\r\n\r\nthree\n  \n\n four").text == "one two\nthree\nfour"


def test_bare_addresses_are_links_without_their_punctuation() -> None:
    page = plain("See http://a.example/x, (https://b.example/y). <http://c.example/> not ftp://d.example/ nor http://")
    assert [link.url for link in page.links] == ["http://a.example/x", "https://b.example/y", "http://c.example/"]
    assert "See \x02http://a.example/x\x03, (" in page.flow


def test_bracket_belongs_to_an_address_when_it_was_opened_there() -> None:
    page = plain("(http://a.example/wren_(bird)) http://a.example/b) http://a.example/(c).")
    assert [link.url[17:] for link in page.links] == ["wren_(bird)", "b", "(c)"]


def test_markup_in_plain_text_is_text() -> None:
    assert plain("<p>a</p> &amp; <a href=x>").text == "<p>a</p> &amp; <a href=x>"


def test_plain_links_are_bounded() -> None:
    page = plain(" ".join(f"http://a.example/{i}" for i in range(9)), max_links=4)
    assert (len(page.links), page.links_dropped) == (4, 5)


def test_robots_header_holds_for_plain_text() -> None:
    page = HtmlParser().parse(answer("x", "text/plain", X_Robots_Tag="noindex"))
    assert page.noindex
