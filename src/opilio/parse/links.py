"""The links of a page, each with its anchor, the headings above it (S2: ISH, SH, MH) and its tag path.

Works on the parsed tree before its text is extracted.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from turbohtml import Element, Namespace, Node, Text

from opilio.core.records import Link, url_key
from opilio.core.urls import MAX_URL_LENGTH, canonicalize_urls
from opilio.parse.head import HeadLink, PageHead
from opilio.parse.text_blocks import clean_text, hides_element
from opilio.text.languages import language_code

# Of all links of a page: the queue stores them, so a small page could fill the disk.
MAX_LINK_CHARACTERS = 1_000_000
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Elements that are links, and the attribute with the URL.
_LINK_ATTRIBUTES = {"a": "href", "area": "href", "iframe": "src", "frame": "src"}
_WALKED_ELEMENTS = (*_LINK_ATTRIBUTES, *HEADINGS)
# The innermost steps distinguish the slots of a template.
MAX_PATH_STEPS = 8
_MAX_STEP_LENGTH = 40
_NUMBERS = re.compile(r"\d+")

Headings = tuple[str, str, str]


# A link in the tree: element, href as written (later the canonical URL), headings above it.
# A plain tuple, because a named one takes five times as long to create.
LinkElement = tuple[Element, str, Headings]


def find_links(body: Element, title: str) -> tuple[list[LinkElement], list[tuple[int, str]]]:
    """Links and headings in document order, each link with the headings above it."""
    first = body.find("h1")
    main = (first and _heading_text(first)) or title
    places: list[LinkElement] = []
    headings: list[tuple[int, str]] = []
    above: Headings = ("", "", main)
    open_headings: list[tuple[int, str]] = []
    for element in body.iter_elements(_WALKED_ELEMENTS):
        tag = element.tag
        source = _LINK_ATTRIBUTES.get(tag)
        if source:
            if tag == "iframe" and element.namespace is Namespace.HTML:
                # Its content is a fallback for browsers without frames.
                element.set_text("")
            href = element.attr(source)
            # Links within the page are dropped later, so they need no check. A link that no visitor can see is there
            # to catch crawlers.
            if href is not None and (
                href[:1] == "#"
                or (element.attr("hidden") is None and not ((style := element.attr("style")) and hides_element(style)))
            ):
                places.append((element, href, above))
        else:
            found = (int(tag[1]), _heading_text(element))
            headings.append(found)
            open_headings = [*(h for h in open_headings if h[0] < found[0]), found]
            above = (found[1], open_headings[-2][1] if len(open_headings) > 1 else "", main)
    return places, headings


def _heading_text(element: Element) -> str:
    # Documentation tools add this sign to headings.
    return clean_text(element.text).rstrip("¶ ")


def resolve_links(places: list[LinkElement], base: str, page_url: str, limit: int) -> tuple[list[LinkElement], int]:
    """The links to other pages with canonical URLs, and the number of links beyond the limit.

    Links to the page itself and other schemes (mailto) are dropped.
    """
    # The common case: links within the page need no resolving.
    if base == page_url:
        places = [place for place in places if place[1][:1] != "#"]
    urls = canonicalize_urls([href for _, href, _ in places], base)
    kept = [
        (element, url, above)
        for (element, _, above), url in zip(places, urls, strict=True)
        if url is not None and url != page_url
    ]
    most = min(limit, _count_within_size([url for _, url, _ in kept]))
    return kept[:most], max(0, len(kept) - most)


def _count_within_size(urls: list[str]) -> int:
    """How many of the URLs a page may bring. With a long base, links of two bytes become URLs of 2,000."""
    if len(urls) * MAX_URL_LENGTH <= MAX_LINK_CHARACTERS:
        return len(urls)
    return bisect_right(list(accumulate(map(len, urls))), MAX_LINK_CHARACTERS)


def fill_empty_anchors(places: Iterable[LinkElement]) -> None:
    """Give links without text the text of their image or title; turn frames and map areas into plain links."""
    for element, _, _ in places:
        if element.tag != "a":
            name = element.attr("alt") or element.attr("title") or element.attr("name") or ""
            # An area can't contain text.
            element.tag = "a"
        elif element.text.strip():
            continue
        else:
            picture = element.find("img")
            name = (picture.attr("alt") if picture is not None else "") or ""
            name = name or element.attr("title") or element.attr("aria-label") or ""
        # With spaces, because an image separates words.
        element.append(Text(f" {clean_text(name)} "))


class TagPaths:
    """Tag paths, outermost to innermost, with classes and ids, cached per element: siblings share their ancestors.

    The tree builder limits the depth of nesting to 512, so climbing is bounded too.
    """

    def __init__(self, body: Element) -> None:
        self._cache: dict[Node | None, tuple[int, str]] = {body: (0, "")}
        self._steps: dict[tuple[str, str | None, str | None], str] = {}

    def path(self, element: Element) -> str:
        """The path of a link, such as `div#content>ul.menu>li>a`."""
        node = element.parent
        found = self._cache.get(node)
        return (found if found is not None else self._path_to(node))[1] + "a"

    def _path_to(self, node: Node | None) -> tuple[int, str]:
        climbed: list[Any] = []
        # The body, which contains all links, is in the cache.
        while node is not None and node not in self._cache:
            climbed.append(node)
            node = node.parent
        steps, path = self._cache.get(node, (0, ""))
        for outer in reversed(climbed):
            if steps == MAX_PATH_STEPS:
                path = path[path.index(">") + 1 :]
            else:
                steps += 1
            path += self._step(outer)
            self._cache[outer] = steps, path
        return steps, path

    def _step(self, element: Element) -> str:
        attributes = (element.tag, element.attr("id"), element.attr("class"))
        step = self._steps.get(attributes)
        if step is None:
            step = self._steps[attributes] = _format_step(*attributes)
        return step


def _format_step(tag: str, identity: str | None, classes: str | None) -> str:
    step = f"{tag}#{identity}" if identity else tag
    if classes:
        step += "." + ".".join(classes.split()[:2])
    return _NUMBERS.sub("0", step.replace(">", ""))[:_MAX_STEP_LENGTH] + ">"


def tag_paths(places: Iterable[LinkElement], body: Element) -> list[str]:
    """The tag path of every link; must run before the text is extracted, which changes the tree."""
    paths = TagPaths(body)
    return [paths.path(element) for element, _, _ in places]


def build_links(places: list[LinkElement], paths: list[str], anchors: list[str]) -> list[Link]:
    """The link records, numbered like their marks."""
    identities: dict[str, tuple[int, str]] = {}
    links: list[Link] = []
    for index, ((element, url, above), path, anchor) in enumerate(zip(places, paths, anchors, strict=True)):
        known = identities.get(url)
        if known is None:
            known = identities[url] = (url_key(url), url.split("/", 3)[2])
        rel = element.attr("rel")
        links.append(
            Link(
                url=url,
                key=known[0],
                host=known[1],
                anchor=anchor.strip(),
                headings=above,
                tag_path=path,
                rel=rel.lower() if rel else "",
                index=index,
            )
        )
    return links


def choose_alternates(head: PageHead, language: str, base: str, url: str, wanted: frozenset[str]) -> list[HeadLink]:
    """Links to the page in each wanted language that it is not in itself, the version without a region first.

    If none of these languages is there, a link to the version for all others (x-default). A site lists dozens of
    versions on every page, most of them in languages that the crawl is not about.
    """
    urls = canonicalize_urls([href for _, href in head.alternates], base)
    own = {language_code(language)}
    found: dict[str, tuple[str, str]] = {}
    for (tag, _), target in zip(head.alternates, urls, strict=True):
        code = "x-default" if tag.strip().lower() == "x-default" else language_code(tag)
        if target == url:
            own.add(code)
        elif target is not None and (code not in found or len(tag) < len(found[code][0])):
            found[code] = tag, target
    chosen = [found[code][1] for code in sorted(wanted - own) if code in found]
    if not chosen and not wanted & own and "x-default" in found and "x-default" not in own:
        chosen = [found["x-default"][1]]
    return [HeadLink(target, "alternate", head.title) for target in chosen]


def build_head_links(found: Iterable[HeadLink], base: str, page_url: str, start: int) -> list[Link]:
    """Links of the head: refresh, next, previous, other languages. `start` is the number of their first mark."""
    listed = list(found)
    urls = canonicalize_urls([link.href for link in listed], base)
    links: list[Link] = []
    for link, url in zip(listed, urls, strict=True):
        if url is not None and url != page_url:
            index = start + len(links)
            host = url.split("/", 3)[2]
            links.append(Link(url=url, key=url_key(url), host=host, anchor=link.anchor, rel=link.rel, index=index))
    return links
