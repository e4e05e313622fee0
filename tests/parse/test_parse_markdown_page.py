"""Pages that servers send as Markdown."""

from opilio.core.records import FetchResult
from opilio.fetch.http import ResponseFilter
from opilio.parse.extract import extract_content
from opilio.parse.html import HtmlParser
from opilio.parse.markdown import MAX_CHARACTERS, markdown_to_html

TEXT = """# Wrens & others

See [the *owl*](../owl.md#food "Owl") or <https://b.example/jay>.

| bird | size |
| --- | --- |
| wren | 10 cm |

```python
if wren:
    sing()
```
"""


def response(text: str, content_type: str = "text/markdown; charset=utf-8") -> FetchResult:
    return FetchResult(
        url="http://a.example/birds/wren.md", status=200, headers=(("Content-Type", content_type),), body=text.encode()
    )


def test_links_title_and_headings_are_read() -> None:
    page = HtmlParser().parse(response(TEXT))
    assert (page.title, page.headings) == ("Wrens & others", ((1, "Wrens & others"),))
    assert [(link.url, link.anchor) for link in page.links] == [
        ("http://a.example/owl.md", "the owl"),
        ("https://b.example/jay", "https://b.example/jay"),
    ]
    assert "wren" in page.main_text
    assert page.content_type == "text/markdown"


def test_code_and_tables_survive_an_export() -> None:
    content = extract_content(response(TEXT, "text/x-markdown")).content
    assert "```python\nif wren:\n    sing()\n```" in content
    assert "| wren | 10 cm |" in content
    assert "[the *owl*](http://a.example/owl.md#food" in content


def test_long_and_odd_texts_are_converted() -> None:
    assert len(markdown_to_html("word " * MAX_CHARACTERS)) < 2 * MAX_CHARACTERS
    assert HtmlParser().parse(response("> " * 5_000 + "[" * 5_000 + "text")).url


def test_markdown_is_fetched() -> None:
    assert ResponseFilter().refusal("http://a.example/wren.md", "text/markdown; charset=utf-8") is None


def test_front_matter_is_read_and_is_no_text() -> None:
    front = "---\ntitle: 'Wrens of Asia'\nauthor: A. Wren\ndate: 2026-11-01\ntags:\n  - bird\n---\n"
    page = HtmlParser().parse(response(front + TEXT))
    assert (page.title, page.headings) == ("Wrens of Asia", ((1, "Wrens & others"),))
    assert "A. Wren" not in page.text and "bird\n" not in page.text.partition("Wrens & others")[0]
    assert '<meta name="author" content="A. Wren"><meta name="date" content="2026-11-01">' in markdown_to_html(front)


def test_rule_at_the_beginning_is_no_front_matter() -> None:
    assert HtmlParser().parse(response("---\n\nWrens: small birds\n\n---\nOwls\n")).text == "Wrens: small birds\nOwls"
    assert "Note: all" in HtmlParser().parse(response("---\nNote: all of them sing\n")).text
