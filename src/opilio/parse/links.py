"""The links of a page, each with its anchor, the headings above it (S2: ISH, SH, MH) and its tag path.

Works on the tree before it is written out. Must not: fetch, or judge a link.
"""

import re
from collections.abc import Iterable

from turbohtml import Element, Namespace, Node, Text

from opilio.core.records import Link, url_key
from opilio.core.urls import canonicalize_urls
from opilio.parse.head import HeadLink
from opilio.parse.text_blocks import clean_text

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Elements that lead on, and by what
_LINK_ATTRIBUTES = {"a": "href", "area": "href", "iframe": "src", "frame": "src"}
_WALKED_ELEMENTS = (*_LINK_ATTRIBUTES, *HEADINGS)
MAX_PATH_STEPS = 8  # the innermost ones tell one template slot from another
_MAX_STEP_LENGTH = 40
_NUMBERS = re.compile(r"\d+")

Headings = tuple[str, str, str]


# A link as found in the tree: element, href as written (later: canonical address), headings above it.
# A plain tuple: pages have hundreds, and a named one takes five times as long to make.
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
                # What stands in it is for browsers without frames
                element.set_text("")
            href = element.attr(source)
            if href is not None:
                places.append((element, href, above))
        else:
            found = (int(tag[1]), _heading_text(element))
            headings.append(found)
            open_headings = [*(h for h in open_headings if h[0] < found[0]), found]
            above = (found[1], open_headings[-2][1] if len(open_headings) > 1 else "", main)
    return places, headings


def _heading_text(element: Element) -> str:
    # The sign documentation tools put behind headings
    return clean_text(element.text).rstrip("¶ ")


def resolve_links(places: list[LinkElement], base: str, page_url: str, limit: int) -> tuple[list[LinkElement], int]:
    """The places that lead somewhere else, with canonical addresses, and how many were beyond the limit.

    All others are no links to us: mailto and the like, links to the page itself.
    """
    # The commonest of all: links within the page, told without looking further
    if base == page_url:
        places = [place for place in places if place[1][:1] != "#"]
    urls = canonicalize_urls([href for _, href, _ in places], base)
    kept = [
        (element, url, above)
        for (element, _, above), url in zip(places, urls, strict=True)
        if url is not None and url != page_url
    ]
    return kept[:limit], max(0, len(kept) - limit)


def fill_empty_anchors(places: Iterable[LinkElement]) -> None:
    """Give links without words the words of their picture or title; make frames and map areas plain links."""
    for element, _, _ in places:
        if element.tag != "a":
            name = element.attr("alt") or element.attr("title") or element.attr("name") or ""
            # An area could hold no text
            element.tag = "a"
        elif element.text.strip():
            continue
        else:
            picture = element.find("img")
            name = (picture.attr("alt") if picture is not None else "") or ""
            name = name or element.attr("title") or element.attr("aria-label") or ""
        # spaces: a picture between words parts them
        element.append(Text(f" {clean_text(name)} "))


class TagPaths:
    """Tag paths, outermost to innermost, with classes and ids, remembered per element: siblings share their way up.

    The tree builder bounds the depth of nesting at 512, so climbing is bounded too.
    """

    def __init__(self, body: Element) -> None:
        self._cache: dict[Node | None, tuple[int, str]] = {body: (0, "")}
        self._steps: dict[tuple[str, str | None, str | None], str] = {}

    def path(self, element: Element) -> str:
        """The way to a link, as in `div#content>ul.menu>li>a`."""
        node = element.parent
        found = self._cache.get(node)
        return (found if found is not None else self._path_to(node))[1] + "a"

    def _path_to(self, node: Node | None) -> tuple[int, str]:
        climbed: list[Element] = []
        while isinstance(node, Element) and node not in self._cache:
            climbed.append(node)
            node = node.parent
        steps, path = self._cache.get(node, (0, ""))
        for node in reversed(climbed):
            if steps == MAX_PATH_STEPS:
                path = path[path.index(">") + 1 :]
            else:
                steps += 1
            path += self._step(node)
            self._cache[node] = steps, path
        return steps, path

    def _step(self, element: Element) -> str:
        looks = (element.tag, element.attr("id"), element.attr("class"))
        step = self._steps.get(looks)
        if step is None:
            step = self._steps[looks] = _format_step(*looks)
        return step


def _format_step(tag: str, identity: str | None, classes: str | None) -> str:
    step = f"{tag}#{identity}" if identity else tag
    if classes:
        step += "." + ".".join(classes.split()[:2])
    return _NUMBERS.sub("0", step.replace(">", ""))[:_MAX_STEP_LENGTH] + ">"


def tag_paths(places: Iterable[LinkElement], body: Element) -> list[str]:
    """The tag path of every link; must run before the tree is prepared for its text."""
    paths = TagPaths(body)
    return [paths.path(element) for element, _, _ in places]


def build_links(places: list[LinkElement], paths: list[str], anchors: list[str]) -> list[Link]:
    """The finished records, numbered as their marks are."""
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


def build_head_links(found: Iterable[HeadLink], base: str, page_url: str, start: int) -> list[Link]:
    """Links that stand in no text: refresh, next, previous. `start` is the number of their first mark."""
    listed = list(found)
    urls = canonicalize_urls([link.href for link in listed], base)
    links: list[Link] = []
    for link, url in zip(listed, urls, strict=True):
        if url is not None and url != page_url:
            index = start + len(links)
            host = url.split("/", 3)[2]
            links.append(Link(url=url, key=url_key(url), host=host, anchor=link.anchor, rel=link.rel, index=index))
    return links
