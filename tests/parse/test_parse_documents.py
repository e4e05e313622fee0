"""Documents as pages: text, title, links, headings and tables of PDF, DOCX, EPUB and XML, and what they may cost."""

import pytest
from msgspec.structs import replace

from checks.documents import DOCBOOK, WREN, docx, epub, make_zip, pdf
from opilio.core.errors import ParseError
from opilio.core.records import FetchResult, Page
from opilio.parse.documents import formats
from opilio.parse.documents.formats import convert_document, document_formats
from opilio.parse.documents.pdf import MAX_PAGES
from opilio.parse.extract import extract_content
from opilio.parse.html import HtmlParser

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
LINK = "http://b.example/owl"
PDF = pdf(
    [
        [
            "About the wren",
            "The wren builds a domed nest of moss and leaves, and its song is",
            "long and loud.",
            "the owl",
        ]
    ],
    title="On wrens",
    link=LINK,
    outline="About the wren",
)
CHAPTER = f"<h1>Nests</h1><p>{WREN} <a href='{LINK}'>the owl</a> <a id='x'/><a href='c2.xhtml'>next</a></p>"
DOCUMENTS = {
    "pdf": (PDF, "application/pdf"),
    "docx": (docx(), DOCX),
    "epub": (epub(CHAPTER, "<p>The end of the wren."), "application/epub+zip"),
    "xml": (DOCBOOK, "application/xml"),
}


WREN_FEATHERS = [f"Wren {n} has {n * n} feathers" for n in range(200)]
WREN_PARAGRAPHS = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in WREN_FEATHERS)
WREN_CHAPTER = "".join(f"<p>{text}</p>" for text in WREN_FEATHERS)


def fetched(body: bytes, content_type: str) -> FetchResult:
    return FetchResult(url="http://a.example/x", status=200, headers=(("Content-Type", content_type),), body=body)


def page_of(kind: str) -> Page:
    return HtmlParser().parse(fetched(*DOCUMENTS[kind]))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_document_is_a_page_with_text_and_links(kind: str) -> None:
    page = page_of(kind)
    assert "a domed nest of moss" in page.main_text and "long and loud" in page.main_text
    assert [(link.url, link.anchor) for link in page.links] == [(LINK, "the owl")]
    assert page.content_type == DOCUMENTS[kind][1]


@pytest.mark.parametrize(
    ("kind", "title", "headings"),
    [
        ("pdf", "On wrens", ((2, "About the wren"),)),
        ("docx", "About wrens", ((1, "Wrens"),)),
        ("epub", "The book of wrens", ((1, "Nests"),)),
        ("xml", "On the wren", ((1, "On the wren"), (2, "Nests"))),
    ],
)
def test_title_and_headings_of_a_document_are_read(
    kind: str, title: str, headings: tuple[tuple[int, str], ...]
) -> None:
    page = page_of(kind)
    assert (page.title, page.headings) == (title, headings)


@pytest.mark.parametrize("kind", ["pdf", "docx", "epub"])
def test_type_is_recognized_when_the_server_does_not_know_it(kind: str) -> None:
    page = HtmlParser().parse(fetched(DOCUMENTS[kind][0], "application/octet-stream"))
    assert page.title == page_of(kind).title


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("pdf", ["## About the wren", "its song is long and loud.", f"[the owl]({LINK})"]),
        ("docx", ["# Wrens", "| bird | gram |", "| wren | 9 |", f"[the owl]({LINK})", "- first item"]),
        ("epub", ["# Nests", f"[the owl]({LINK})"]),
        ("xml", ["## Nests", "    sing()", "| wren | 9 |"]),
    ],
)
def test_document_is_exported_as_markdown(kind: str, wanted: list[str]) -> None:
    extracted = extract_content(fetched(*DOCUMENTS[kind]))
    assert [part for part in wanted if part not in extracted.content] == []
    assert extracted.metadata.author == ("" if kind == "xml" else "A. Wren")


def test_lists_of_a_docx_are_nested_as_their_levels() -> None:
    def item(text: str, level: object) -> str:
        number = f'<w:numPr><w:ilvl w:val="{level}"/></w:numPr>'
        return f"<w:p><w:pPr>{number}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

    styled = '<w:p><w:pPr><w:pStyle w:val="ListBullet"/></w:pPr><w:r><w:t>by its style</w:t></w:r></w:p>'
    styles = '<w:styles xmlns:w="w"><w:style w:styleId="ListBullet"><w:pPr><w:numPr/></w:pPr></w:style></w:styles>'
    text = "<w:p><w:r><w:t>after</w:t></w:r></w:p>"
    assert "deep" in extract_content(fetched(docx(item("deep", "9" * 5_000)), DOCX)).content
    body = docx(item("inner", 1) + item("outer", 0) + text + styled, **{"word/styles.xml": styles})
    shown = extract_content(fetched(body, DOCX)).content
    assert "- first item\n  - inner\n- outer\n\nafter\n\n- by its style" in shown


def test_text_of_links_is_bounded_when_very_many_have_the_same_long_target() -> None:
    """1.6 KB of DOCX became 4 GB of HTML."""
    target = f'<Relationship Id="x" Target="http://b.example/{"y" * 100_000}" TargetMode="External"/>'
    relations = {"word/_rels/document.xml.rels": f"<Relationships>{target}</Relationships>"}
    found = convert_document(fetched(docx('<w:hyperlink r:id="x"/>' * 2_000, **relations), DOCX))
    assert len(found.converted) < 5_000_000


def test_deleted_text_and_tables_of_contents_are_left_out() -> None:
    assert "deleted" not in page_of("docx").text
    assert "contents" not in page_of("epub").text


def test_lines_of_a_pdf_are_joined_and_running_heads_removed() -> None:
    words = ("one", "two", "three", "four", "five", "six")
    pages = [
        [
            f"Birds {n}",
            f"{word}, and it sings.",
            f"Text of page {word} is long enough to be",
            "a paragraph.",
            "",
            word * 2,
        ]
        for n, word in enumerate(words)
    ]
    for page in pages:
        page[4:4] = [f"{page[1]} Again.", "It is long and loud in spring."]
    text = HtmlParser().parse(fetched(pdf(pages), "application/pdf")).text
    assert "Text of page three is long enough to be a paragraph." in text
    assert "Birds 0" in text and "Birds 2" not in text


def test_converted_html_is_used_instead_of_the_document() -> None:
    response = convert_document(fetched(*DOCUMENTS["docx"]))
    assert HtmlParser().parse(
        FetchResult(url=response.url, headers=response.headers, body=b"", converted=response.converted)
    ) == page_of("docx")


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"%PDF-1.4 nothing", "application/pdf", "document: the PDF file is encrypted or damaged"),
        (pdf([[]]), "application/pdf", "document: the PDF file has no text"),
        (b"PK\x03\x04 nothing", DOCX, "document: the DOCX file is damaged"),
        (make_zip({"a": "b"}), DOCX, "document: the DOCX file has no text"),
        (make_zip({"a": "b"}), "application/epub+zip", "document: the EPUB file has no META-INF"),
        (b"<data><x>1</x></data>", "text/xml", "content-type: XML data"),
        (b"<svg>" + WREN.encode() * 9 + b"</svg>", "text/xml", "content-type: XML data"),
        (b"%!PS-Adobe", "application/postscript", "content-type: application/postscript"),
    ],
)
def test_document_that_cannot_be_read_says_why(body: bytes, content_type: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        HtmlParser().parse(fetched(body, content_type))


def test_missing_library_is_named() -> None:
    reader = replace(document_formats()[0], name="X", module="no_such_module", extra="opilio[x]")
    assert reader.missing == "to read X, install opilio[x]"
    assert [known.name for known in document_formats()] == ["DOCX", "EPUB", "PDF", "XML"]


def test_beginning_of_a_damaged_document_is_kept() -> None:
    response = convert_document(fetched(DOCBOOK[: DOCBOOK.index(b"<programlisting")], "text/xml"))
    assert response.truncated == "length" and b"domed nest" in response.converted
    cut = docx("<w:p><w:r><w:t>the last")
    assert convert_document(fetched(cut, DOCX)).truncated == "length"
    assert convert_document(fetched(docx(), DOCX)).truncated == ""


@pytest.mark.parametrize(
    ("body", "kind", "last_part"),
    [
        (docx(WREN_PARAGRAPHS), DOCX, b"word/document.xml"),
        (epub(CHAPTER, WREN_CHAPTER), "application/epub+zip", b"text/c1.xhtml"),
    ],
)
def test_beginning_of_an_archive_without_its_end_is_kept(body: bytes, kind: str, last_part: bytes) -> None:
    whole = convert_document(fetched(body, kind))
    # Without the directory at the end, all parts are there.
    without_directory = convert_document(fetched(body[: body.index(b"PK\x01\x02")], kind))
    assert without_directory.converted == whole.converted and without_directory.truncated == "length"
    # Within the last part that has text.
    cut = convert_document(fetched(body[: body.index(last_part) + 600], kind))
    assert b"Wren 20 " in cut.converted and b"Wren 199 " not in cut.converted and cut.truncated == "length"


def test_names_in_an_archive_without_its_end_are_bounded() -> None:
    header = b"PK\x03\x04" + bytes(4) + b"\xff" * 22
    with pytest.raises(ParseError, match="the DOCX file is damaged"):
        convert_document(fetched(header * 100_000, DOCX))


def test_pages_of_a_pdf_are_bounded() -> None:
    response = convert_document(fetched(pdf([["wren"]] * (MAX_PAGES + 5)), "application/pdf"))
    assert response.truncated == "length"
    assert response.converted.count(b"<p>wren</p>") == MAX_PAGES


def test_bytes_that_an_archive_unpacks_to_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_BYTES", 100_000)
    chapters = [f"<p>{'wren ' * 10_000}" for _ in range(5)]
    response = convert_document(fetched(epub(*chapters), "application/epub+zip"))
    assert response.truncated == "length" and len(response.converted) < 110_000


def test_entities_are_not_expanded_without_end() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY e0 "wren wren wren">{entities}]><a><p>{WREN}</p><p>{WREN}</p><p>&e11;</p></a>'
    response = convert_document(fetched(bomb.encode(), "text/xml"))
    assert response.truncated == "length" and len(response.converted) < 20_000_000


def test_external_entities_are_not_read() -> None:
    text = f'<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/hostname">]><a><p>{WREN}</p><p>{WREN}</p>&f;</a>'
    assert convert_document(fetched(text.encode(), "text/xml")).converted.count(b"<p>") == 2


def test_nesting_of_elements_is_bounded() -> None:
    deep = f"<a><p>{WREN}</p><p>{WREN}</p>{'<b>' * 100_000}".encode()
    assert convert_document(fetched(deep, "text/xml")).truncated == "length"
