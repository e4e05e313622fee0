"""MediaWiki (Wikipedia and others): articles found by search, their external links, or articles that link to a page.

It expects one request at a time and a User-Agent with a contact address. Errors have status 200. External links may
lack their scheme, and are in `*` or, from newer servers, in `url`. Without `srwhat=text`, a wiki without CirrusSearch
finds words in titles only. Checked with MediaWiki 1.39 (`tests/seeds/README.md`).
"""

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs, quote, unquote, urlsplit

from opilio.core.records import EngineAnswer, Failure, rank_hits
from opilio.seeds.api_client import (
    UNEXPECTED_JSON,
    ApiRequest,
    EngineClient,
    get_objects,
    get_objects_or_none,
    get_path,
    get_string,
    parse_json,
)
from opilio.seeds.engines.paged import ResultPage, ResultPageRequest
from opilio.seeds.queries import add_genre_words, sort_by_query_words

MEDIAWIKI_URL = "https://en.wikipedia.org/w/api.php"
MEDIAWIKI_PAGE_SIZE = 50
USUAL_ARTICLE_PATH = "/wiki/"
# Targets of citations that are not pages on the topic: archives, identifiers, catalogues.
# fmt: off
EXCLUDED_DOMAINS = (
    "archive.org", "archive.today", "archive.is", "doi.org", "worldcat.org", "isbnsearch.org", "jstor.org",
    "books.google.com", "wikidata.org", "wikimedia.org", "wikipedia.org", "viaf.org", "id.loc.gov", "d-nb.info",
    "semanticscholar.org", "ncbi.nlm.nih.gov")
# fmt: on


class MediaWiki:
    """Search: the URLs of the articles found. `article` is the path before a title; empty: as the wiki states."""

    def __init__(self, url: str = MEDIAWIKI_URL, article: str = "", *, trusted: bool = False) -> None:
        self._url = url
        self._site = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        self._article = article
        self._trusted = trusted

    def build_request(self, want: ResultPageRequest) -> ApiRequest:
        size = min(MEDIAWIKI_PAGE_SIZE, want.limit)
        listed = (("list", "search"), ("srwhat", "text"), ("srlimit", str(size)), ("sroffset", str(want.page * size)))
        # Titles only: snippets are most of the server's work and of the response.
        plain = (("srinfo", ""), ("srprop", ""))
        return self._query(*listed, *plain, ("srsearch", add_genre_words(want.query, want.genre)))

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage:  # noqa: ARG002 the shape's signature
        if failure := parse_search_error(tree):
            return ResultPage([], False, failure)
        return ResultPage(self._article_urls(tree, parse_titles(tree)), get_path(tree, "continue") is not None)

    def _query(self, *listed: tuple[str, str]) -> ApiRequest:
        asked = () if self._article else (("meta", "siteinfo"), ("siprop", "general"))
        params = (("action", "query"), ("format", "json"), ("maxlag", "5"), *asked, *listed)
        return ApiRequest(url=self._url, params=params, trusted=self._trusted)

    def _article_urls(self, tree: object, titles: Iterable[str]) -> list[str]:
        """Their URLs, always on the host of the API: a response can't name another."""
        stated = get_string(tree, "query", "general", "articlepath")
        usual = f"{self._article or USUAL_ARTICLE_PATH}$1"
        path = stated if stated.startswith("/") and "$1" in stated and not self._article else usual
        return [self._site + path.replace("$1", quote(name.replace(" ", "_"), safe="/:(),'!*@")) for name in titles]

    def explain_failure(self, failure: Failure, tree: object) -> Failure:
        refused = Failure("status", f"{failure.detail}; wikis may require politeness.contact")
        return parse_error(tree) or (refused if failure.kind == "key" else failure)


class MediaWikiBacklinks(MediaWiki):
    """Articles that link to a page. The query is its URL, perhaps after `link:`, or the title of an article.

    The wiki lists links between articles and links to other sites separately. One page of results is enough for the
    parents of a page.
    """

    def build_request(self, want: ResultPageRequest) -> ApiRequest:
        page = want.query.removeprefix("link:")
        limit = str(min(MEDIAWIKI_PAGE_SIZE, want.limit))
        title = self._title_of(page)
        if not title:
            listed = (("list", "exturlusage"), ("euprop", "title"), ("eunamespace", "0"), ("eulimit", limit))
            return self._query(*listed, ("euquery", page.partition("://")[2]))
        listed = (("list", "backlinks"), ("blfilterredir", "nonredirects"), ("blnamespace", "0"), ("bllimit", limit))
        return self._query(*listed, ("bltitle", title))

    def _title_of(self, page: str) -> str:
        """The title that a query names: itself, or the one in the URL of an article; empty for other sites."""
        if "://" not in page:
            return page
        if not page.startswith(f"{self._site}/"):
            return ""
        prefixes = (self._article,) if self._article else (USUAL_ARTICLE_PATH, "index.php/")
        found = parse_qs(urlsplit(page).query).get("title", [""])[0]
        after = [page.partition(prefix)[2] for prefix in prefixes]
        return (found or unquote(next(filter(None, after), ""))).replace("_", " ")

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage:  # noqa: ARG002 the shape's signature
        lists = [get_objects_or_none(tree, "query", name) for name in ("backlinks", "exturlusage")]
        found = next((entries for entries in lists if entries is not None), None)
        if found is None:
            return ResultPage([], False, parse_error(tree) or UNEXPECTED_JSON)
        titles = dict.fromkeys(filter(None, (get_string(entry, "title") for entry in found)))
        return ResultPage(self._article_urls(tree, titles), False)


class MediaWikiLinks:
    """The external links of the articles found."""

    def __init__(
        self, name: str, client: EngineClient, search: MediaWiki, url: str = MEDIAWIKI_URL, articles: int = 5
    ) -> None:
        self.name = name
        self._client = client
        self._search = search
        self._url = url
        self._articles = articles

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:
        """One answer: links with words of the query in their URL first, then in the order of the articles."""
        request = self._search.build_request(ResultPageRequest(query, genre, 0, self._articles))
        tree = parse_json(await self._client.send(request))
        failure = tree if isinstance(tree, Failure) else parse_search_error(tree)
        titles = [] if failure else parse_titles(tree)[: self._articles]
        links: list[str] = []
        if titles:
            links, failure = await self._links(titles, request.trusted)
        best = sort_by_query_words(dict.fromkeys(filter(_is_seed, links)), query)[:limit]
        return [EngineAnswer(voter=self.name, hits=rank_hits(best), failure=failure)]

    async def _links(self, titles: Sequence[str], trusted: bool) -> tuple[list[str], Failure | None]:
        links: list[str] = []
        more: tuple[tuple[str, str], ...] = ()
        for _ in range(self._client.limits.pages):
            params = (
                *(("action", "query"), ("prop", "extlinks"), ("format", "json"), ("formatversion", "2")),
                *(("ellimit", "500"), ("maxlag", "5"), ("titles", "|".join(titles)), *more),
            )
            tree = parse_json(await self._client.send(ApiRequest(url=self._url, params=params, trusted=trusted)))
            failure = tree if isinstance(tree, Failure) else parse_error(tree)
            if failure:
                return links, failure
            links += parse_links(tree)
            following = get_path(tree, "continue")
            if not isinstance(following, dict):
                break
            more = tuple((str(k), str(v)) for k, v in following.items())
        return links, None


def parse_titles(tree: object) -> list[str]:
    """The titles in a search result."""
    return [title for entry in get_objects(tree, "query", "search") if (title := get_string(entry, "title"))]


def parse_links(tree: object) -> list[str]:
    """The external links of all articles in a response, in both formats."""
    pages = get_path(tree, "query", "pages")
    listed = list(pages.values()) if isinstance(pages, dict) else pages if isinstance(pages, list) else []
    found = [
        get_string(link, "url") or get_string(link, "*") for page in listed for link in get_objects(page, "extlinks")
    ]
    return [f"https:{url}" if url.startswith("//") else url for url in found]


def parse_error(tree: object) -> Failure | None:
    """The error in a response with status 200."""
    code, message = get_string(tree, "error", "code"), get_string(tree, "error", "info")
    if not code:
        return None
    return Failure("limit" if code in ("maxlag", "ratelimited") else "answer", f"{code}: {message}"[:200])


def parse_search_error(tree: object) -> Failure | None:
    """The error in a search response, also for an unexpected format."""
    known = get_objects_or_none(tree, "query", "search", sign="batchcomplete") is not None
    return parse_error(tree) or (None if known else UNEXPECTED_JSON)


def _is_seed(url: str) -> bool:
    host = urlsplit(url).hostname if url.startswith(("http://", "https://")) else None
    return bool(host) and not any(host == known or str(host).endswith(f".{known}") for known in EXCLUDED_DOMAINS)
