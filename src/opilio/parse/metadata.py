"""Metadata of a page for exports: title, author, dates, licence. Read from meta and link elements and JSON-LD."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from turbohtml import Document, Element

from opilio.parse.head import PageHead
from opilio.parse.signals import LICENCE_METAS
from opilio.parse.text_blocks import clean_text

_MAX_JSON_LD = 200_000  # bytes of one block
JSON_LD_TYPE = b"application/ld+json"
_MAX_NODES = 500  # of one block that are looked at
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?")
_AUTHOR_NAMES = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author")
_PUBLISHED_NAMES = (
    *("article:published_time", "date", "dc.date", "dcterms.created", "dcterms.issued", "dc.date.issued"),
    *("citation_publication_date", "pubdate", "parsely-pub-date"),
)
_MODIFIED_NAMES = ("article:modified_time", "og:updated_time", "dcterms.modified", "dc.date.modified", "last-modified")


class PageMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a page states about itself; an empty string if it does not."""

    title: str = ""
    author: str = ""
    published: str = ""
    modified: str = ""
    licence: str = ""


def read_metadata(document: Document, head: PageHead) -> PageMetadata:
    """The metadata; meta elements count before JSON-LD, the main heading before the title element."""
    nodes = list(_json_ld(document))
    heading = document.find("h1")
    time = document.select_one("time[datetime][pubdate],[itemprop=datePublished][datetime]")
    published = _first_date(*(head.meta.get(name, "") for name in _PUBLISHED_NAMES), _node_text(nodes, "datePublished"))
    return PageMetadata(
        title=clean_text(head.first_value("og:title") or (heading.text if heading else "") or head.title)[:500],
        author=_author(document, head, nodes)[:200],
        published=published or _first_date((time.attr("datetime") or "") if time else ""),
        modified=_first_date(*(head.meta.get(name, "") for name in _MODIFIED_NAMES), _node_text(nodes, "dateModified")),
        licence=_licence(document, head, nodes)[:500],
    )


def _author(document: Document, head: PageHead, nodes: list[dict[str, Any]]) -> str:
    declared = head.first_value(*_AUTHOR_NAMES)
    if declared and not declared.startswith(("http://", "https://")):
        return declared
    link = document.select_one("a[rel~=author],[itemprop=author]")
    return _node_text(nodes, "author") or (clean_text(link.text) if link else "")


def _licence(document: Document, head: PageHead, nodes: list[dict[str, Any]]) -> str:
    link = document.select_one("link[rel~=license][href],a[rel~=license][href]")
    href = (link.attr("href") or "") if isinstance(link, Element) else ""
    return href.strip() or _node_text(nodes, "license") or head.first_value(*LICENCE_METAS)


def _first_date(*values: str) -> str:
    """The first value that begins with an ISO date."""
    return next((found[0] for value in values if (found := _ISO_DATE.match(value.strip()))), "")


def json_ld_licence(body: bytes) -> str:
    """The licence that the JSON-LD of a page states, or nothing. Reads bytes: the tree of a crawl has no scripts."""
    return _node_text(list(_read_json_ld(_script_blocks(body))), "license")


def _script_blocks(body: bytes) -> Iterator[bytes]:
    position = body.find(JSON_LD_TYPE)
    while position >= 0:
        start = body.find(b">", position) + 1
        end = body.find(b"</script", start)
        if not start or end < 0:
            return
        yield body[start:end]
        position = body.find(JSON_LD_TYPE, end)


def _json_ld(document: Document) -> Iterator[dict[str, Any]]:
    return _read_json_ld(script.text for script in document.select('script[type="application/ld+json"]'))


def _read_json_ld(blocks: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """The objects of the JSON-LD blocks, outer ones first; blocks that cannot be read are skipped."""
    for block in blocks:
        if len(block) > _MAX_JSON_LD:
            continue
        with suppress(msgspec.DecodeError, RecursionError):
            queue = [msgspec.json.decode(block)]
            seen = 0
            while queue and seen < _MAX_NODES:
                node, seen = queue.pop(0), seen + 1
                if isinstance(node, dict):
                    yield node
                    queue += [node[key] for key in ("@graph", "mainEntity", "mainEntityOfPage") if key in node]
                elif isinstance(node, list):
                    queue += node


def _node_text(nodes: list[dict[str, Any]], name: str) -> str:
    """The first value of a property as text: a string, the name or URL of an object, or a list of those."""
    for node in nodes:
        values = node.get(name)
        texts = [_value_text(value) for value in (values if isinstance(values, list) else [values])]
        if any(texts):
            return ", ".join(filter(None, texts))
    return ""


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("name") or value.get("url") or value.get("@id")
    return clean_text(value) if isinstance(value, str) else ""
