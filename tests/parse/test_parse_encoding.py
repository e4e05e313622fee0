import pytest

from opilio.core.protocols import Parser
from opilio.parse.encoding import decode_text
from opilio.testing.stages import answer

RUSSIAN = "Крапивник — маленькая певчая птица. Он поёт очень громко, и его легко узнать по голосу. "


@pytest.mark.parametrize(
    ("body", "content_type", "text", "encoding"),
    [
        ("é".encode("latin-1"), "text/html; charset=ISO-8859-1", "é", "windows-1252"),
        ("\ufeffé".encode(), "text/html; charset=latin1", "é", "utf-8"),
        ("\ufeffé".encode("utf-16-le"), "text/html", "é", "utf-16le"),
        ("<p>é鳥".encode("utf-16-le"), "text/html", "é鳥", "utf-16le"),
        ("<p>é鳥".encode("utf-16-be"), "text/html", "é鳥", "utf-16be"),
        (b"<meta charset=koi8-r>" + "ё".encode("koi8-r"), "text/html", "ё", "koi8-r"),
        (
            b"<meta http-equiv=content-type content='text/html; charset=shift_jis'>\x82\xa0",
            "text/html",
            "あ",
            "shift_jis",
        ),
        (b"<?xml version='1.0' encoding='EUC-JP'?><p>" + "鳥".encode("euc-jp"), "text/html", "鳥", "euc-jp"),
        (b"<?xml encoding='latin1'?><meta charset=koi8-r>" + "ё".encode("koi8-r"), "text/html", "ё", "koi8-r"),
        (b"<?xml version='1.0' encoding='UTF-16'?><p>" + "é".encode(), "application/xhtml+xml", "é", "utf-8"),
        ("é".encode(), "text/html; charset=no-such-thing", "é", "utf-8"),
        ("é".encode(), "text/html", "é", "utf-8"),
        (RUSSIAN.encode("cp1251") * 5, "text/html", (RUSSIAN * 5).strip(), "windows-1251"),
    ],
    ids=[
        "header",
        "mark-wins",
        "utf-16",
        "utf-16-without-mark",
        "utf-16-without-mark-the-other-way-round",
        "meta",
        "http-equiv",
        "xml",
        "xml-and-meta",
        "xml-utf-16",
        "unknown-label",
        "utf-8",
        "detected",
    ],
)
def test_html_is_decoded_by_whatwg_rules(
    parser: Parser, body: bytes, content_type: str, text: str, encoding: str
) -> None:
    page = parser.parse(answer(body, content_type))
    assert (page.text, page.encoding) == (text, encoding)


@pytest.mark.parametrize(
    ("label", "href", "url"),
    [
        ("windows-1251", "/ж?q=ж&p=a%20b#ж", "http://a.example/%D0%B6?q=%E6&p=a%20b"),
        ("shift_jis", "?q=表x", "http://a.example/?q=%95%5Cx"),
        ("euc-kr", "?q=힣", "http://a.example/?q=%C6R"),
        ("koi8-r", "?q=é", "http://a.example/?q=%26%23233%3B"),  # not of this encoding
        ("utf-8", "?q=é", "http://a.example/?q=%C3%A9"),
    ],
)
def test_query_is_sent_in_the_encoding_of_its_page(parser: Parser, label: str, href: str, url: str) -> None:
    codec = {"shift_jis": "cp932", "euc-kr": "cp949"}.get(label, label)
    markup = f"<meta charset={label}><a href='{href}'>".encode(codec, "xmlcharrefreplace")
    page = parser.parse(answer(markup, "text/html", "http://a.example/"))
    assert [link.url for link in page.links] == [url]


def test_wrong_charset_never_raises(parser: Parser) -> None:
    assert parser.parse(answer(b"<p>caf\xe9 au lait", "text/html; charset=utf-8")).text == "caf\ufffd au lait"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"caf\xe9", "text/plain; charset=latin1", "café"),
        ("\ufeffcafé".encode(), "text/plain; charset=latin1", "café"),
        ("café".encode(), "text/plain", "café"),
        (b"", "text/plain", ""),
        (b"\xff\xff\xfe\x80", 'text/plain; charset="bogus\x00"', None),
    ],
)
def test_plain_text_is_decoded(body: bytes, content_type: str, expected: str | None) -> None:
    text, _ = decode_text(body, content_type)
    assert expected is None or text == expected
