"""The stored copy of a page: its main text, the original in a sandbox, and what changed between versions."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from html import escape
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opilio.core.errors import CollectionError, ParseError, UsageError
from opilio.core.records import FetchResult, url_key
from opilio.core.urls import require_url
from opilio.parse.encoding import ContentKind, declared_encoding, detect_kind
from opilio.parse.extract import extract_content
from opilio.search.snippet import Highlighter, query_highlighter
from opilio.store.collection import Collection
from opilio.store.labels import label_name
from opilio.store.versions import PageVersion, follow_moves, list_versions, read_stored_response
from opilio.web.auth import POLICY
from opilio.web.collections import UnknownCollectionError
from opilio.web.context import (
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
    RawRoute,
    attachment_header,
    parse_params,
)
from opilio.web.templating import strip_invisible

VIEWS = ("text", "original", "changes")
MAX_SHOWN_CHARS = 200_000
# Comparing takes quadratic time at worst.
MAX_COMPARED_LINES = 3_000
CONTEXT_LINES = 2
# The original can't run scripts, send forms, open windows or load anything from another server.
SANDBOX_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:;"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)


class StoredVersion(NamedTuple):
    """A version with its number, counted from 1, and all versions of its page."""

    number: int
    version: PageVersion
    versions: list[PageVersion]


def show_copy(context: AppContext, request: PageRequest) -> PageView:
    values = request.values
    with context.open(request.name) as collection:
        found = _find_version(collection, values["url"], values["version"])
        fetched = _read(collection, found.version)
        data = {
            "url": found.version.url,
            "number": found.number,
            "versions": [_describe(number, version) for number, version in enumerate(found.versions, 1)],
            "view": values["view"],
            "views": VIEWS,
            "markdown": _content(fetched, markdown=True),
            "shown_as": _shown_as(fetched),
            "label": label_name(collection.connection, url_key(found.version.url)),
        }
        marker = MatchMarker(query_highlighter(values["q"], found.version.language))
        data["_html"] = render_markdown_safely(data["markdown"], marker) if values["view"] == "text" else ""
        data |= {"q": values["q"], "matches": marker.count}
        data["changes"] = _changes(collection, found, values["against"]) if values["view"] == "changes" else []
        data["against"] = _other_number(found, values["against"])
    title = f"Copy of {found.version.title or found.version.url}"
    # Only this page may contain a frame.
    headers = {"Content-Security-Policy": f"{POLICY}; frame-src 'self'"}
    return PageView(template="copy.html", data=data, title=title, table_key="versions", headers=headers)


def _find_version(collection: Collection, url: str, number: int) -> StoredVersion:
    """The version with this number; 0 is the newest."""
    address = require_url(url)
    versions = list_versions(collection, follow_moves(collection, url_key(address)))
    if not versions:
        raise UnknownCollectionError(f"{address[:300]}: no stored page has this URL")
    if number > len(versions):
        raise UsageError(f"version = {number}: this page has {len(versions)} stored versions")
    chosen = number or len(versions)
    return StoredVersion(chosen, versions[chosen - 1], versions)


def _read(collection: Collection, version: PageVersion) -> FetchResult | None:
    """The stored response; that of the original if the page is a copy of another one."""
    fetched = read_stored_response(collection, version)
    if fetched is None and version.duplicate_of:
        originals = list_versions(collection, version.duplicate_of)
        fetched = read_stored_response(collection, originals[-1]) if originals else None
    return fetched


def _content(fetched: FetchResult | None, *, markdown: bool) -> str:
    if fetched is None:
        return ""
    try:
        return extract_content(fetched, markdown=markdown).content[:MAX_SHOWN_CHARS]
    except ParseError:
        return ""


def _describe(number: int, version: PageVersion) -> dict[str, Any]:
    return {
        "version": number,
        "url": version.url,
        "fetched_at": version.fetched_at,
        "title": version.title,
        "words": version.words,
        "relevant": version.relevant,
        "ended": version.cause,
    }


def _other_number(found: StoredVersion, against: int) -> int:
    """The version to compare with: the given one, else the one before."""
    if against > len(found.versions):
        raise UsageError(f"against = {against}: this page has {len(found.versions)} stored versions")
    return against or max(1, found.number - 1)


def _changes(collection: Collection, found: StoredVersion, against: int) -> list[dict[str, str]]:
    older = found.versions[_other_number(found, against) - 1]
    before, after = (_content(_read(collection, one), markdown=False) for one in (older, found.version))
    return [{"kind": kind, "text": text} for kind, text in compare_texts(before, after)]


def compare_texts(before: str, after: str) -> list[tuple[str, str]]:
    """Lines as (kind, text): removed, added, and `same` for the lines around a change; `gap` for omitted lines.

    >>> compare_texts("a\\nb\\nc\\nd\\ne", "a\\nb\\nc\\nd\\nf")
    [('gap', '2 unchanged lines'), ('same', 'c'), ('same', 'd'), ('removed', 'e'), ('added', 'f')]
    """
    old, new = (text.splitlines() for text in (before, after))
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        return [("gap", f"{len(old)} lines before, {len(new)} now: too long to compare")]
    return list(_diff(old, new))


def _diff(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() == 1.0:
        return
    end = 0
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        if group[0][1] > end:
            yield "gap", f"{group[0][1] - end} unchanged lines"
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (("same", line) for line in old[a:b])
            else:
                yield from (("removed", line) for line in old[a:b])
                yield from (("added", line) for line in new[c:d])
        end = group[-1][2]
    if end < len(old):
        yield "gap", f"{len(old) - end} unchanged lines"


class MatchMarker:
    """Marks the words of a query in a text, and counts the marks. Words side by side are one mark: a phrase."""

    def __init__(self, highlighter: Highlighter | None = None) -> None:
        self._highlighter = highlighter
        self.count = 0

    def mark(self, text: str) -> str:
        """The text as HTML; the first mark is the target of a link."""
        if self._highlighter is None:
            return escape(text)
        runs: list[tuple[int, int]] = []
        for start, end, _ in self._highlighter.matches(text):
            if runs and text[runs[-1][1] : start].isspace():
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((start, end))
        made, at = [], 0
        for start, end in runs:
            self.count += 1
            place = ' id="first-match"' if self.count == 1 else ""
            made += [escape(text[at:start]), f"<mark{place}>{escape(text[start:end])}</mark>"]
            at = end
        return "".join([*made, escape(text[at:])])


class _CopyRenderer(RendererHTML):
    """Markdown as HTML without pictures; links open in a new tab, and headings start below those of our page."""

    def text(self, tokens: Sequence[Token], idx: int, _options: object, env: Any) -> str:  # noqa: ANN401 as inherited
        marker: MatchMarker = env["marker"]
        return marker.mark(tokens[idx].content)

    def image(self, tokens: Sequence[Token], idx: int, _options: object, _env: object) -> str:
        text = tokens[idx].content
        return f"<em>[picture: {escape(text)}]</em>" if text else ""

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ANN401 as inherited
        tokens[idx].attrs |= {"rel": "noreferrer noopener nofollow", "target": "_blank"}
        return self.renderToken(tokens, idx, options, env)


@cache
def _markdown() -> MarkdownIt:
    # `html` off: markup inside the text is shown, not used. Links with scripts are refused by the library.
    return MarkdownIt("commonmark", {"html": False}, renderer_cls=_CopyRenderer).enable("table")


def render_markdown_safely(text: str, marker: MatchMarker | None = None) -> Markup:
    """Markdown of a foreign page as HTML that is safe to show, with matches marked.

    >>> str(render_markdown_safely("# A\\n\\n<script>x</script> [b](javascript:alert)"))
    '<h3>A</h3>\\n<p>&lt;script&gt;x&lt;/script&gt; [b](javascript:alert)</p>\\n'
    """
    tokens, level = _markdown().parse(str(strip_invisible(text))), 2
    for token in tokens:
        if token.type == "heading_open":
            # No level is left out (WCAG 1.3.1).
            level = min(int(token.tag[1:]) + 2, level + 1, 6)
        if token.type.startswith("heading_"):
            token.tag = f"h{level}"
    env = {"marker": marker or MatchMarker()}
    return Markup(_markdown().renderer.render(tokens, _markdown().options, env))  # noqa: S704 escaped by the renderer


def original_route(context: AppContext) -> Route:
    """The stored bytes in a sandbox."""

    def endpoint(request: Request) -> Response:
        values = parse_params(ORIGINAL.params, request.query_params.multi_items())
        with context.open(request.path_params["name"]) as collection:
            found = _find_version(collection, values["url"], values["version"])
            fetched = _read(collection, found.version)
        if fetched is None:
            raise CollectionError(f"{found.version.url[:300]}: its bytes are not stored")
        return _sandboxed(fetched)

    return Route(ORIGINAL.path, endpoint, methods=["GET", "HEAD"])


def _sandboxed(fetched: FetchResult) -> Response:
    content_type, kind = fetched.header("content-type"), _shown_as(fetched)
    if kind == "document":
        name = PurePosixPath(urlsplit(fetched.url).path).name or "document"
        return Response(fetched.body, media_type="application/octet-stream", headers=attachment_header(name))
    encoding = declared_encoding(content_type, fetched.body)
    media_type = f"text/{kind}; charset={encoding}" if encoding else f"text/{kind}"
    headers = {"Content-Security-Policy": SANDBOX_POLICY, "X-Frame-Options": "SAMEORIGIN", "Content-Type": media_type}
    return Response(fetched.body, headers=headers)


def _shown_as(fetched: FetchResult | None) -> str:
    """html, plain, or document: something that is offered as a file."""
    if fetched is None:
        return "html"
    kind = detect_kind(fetched.header("content-type"), fetched.body)
    return {ContentKind.HTML: "html", ContentKind.XHTML: "html", ContentKind.DOCUMENT: "document"}.get(kind, "plain")


_URL = Param(name="url", about="The URL of the page.", required=True)
_VERSION = Param(name="version", about="Its version, from 1; 0: the newest.", kind="integer", default=0, minimum=0)
ORIGINAL = RawRoute(
    path="/c/{name}/original",
    about="The stored page as it was, in a sandbox.",
    media_type="text/html",
    params=(_URL, _VERSION),
)
PAGES = (
    PageRoute(
        path="/c/{name}/copy",
        show=show_copy,
        about="The stored copy of a page: main text, sandboxed original, versions and their differences.",
        params=(
            _URL,
            _VERSION,
            Param(name="view", about="What to show.", kind="choice", choices=VIEWS, default="text"),
            Param(
                name="against",
                about="With changes: the version to compare with; 0: the one before.",
                kind="integer",
                default=0,
                minimum=0,
            ),
            Param(name="q", about="Mark the words of this query in the text."),
        ),
    ),
)
