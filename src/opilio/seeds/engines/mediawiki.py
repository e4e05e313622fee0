"""MediaWiki (Wikipedia and others): articles found by search, or the external links of such articles.

It wants one request at a time and a User-Agent with an address to write to. Errors come with status 200. External
links may lack their scheme, and come as `*` or, from newer servers, as `url`.
"""

from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from opilio.model.records import Answer, Failure, Hit
from opilio.seeds.asking import OTHER_SHAPE, EngineClient, Request, at, entries, json_of, listed, text
from opilio.seeds.genres import worded
from opilio.seeds.paging import Leaf, Want
from opilio.seeds.wording import by_words

URL = "https://en.wikipedia.org/w/api.php"
SIZE = 50
# Where citations lead that are no pages on the topic: archives, identifiers, catalogues.
# fmt: off
NO_SEEDS = ("archive.org", "archive.today", "archive.is", "doi.org", "worldcat.org", "isbnsearch.org", "jstor.org",
    "books.google.com", "wikidata.org", "wikimedia.org", "wikipedia.org", "viaf.org", "id.loc.gov", "d-nb.info",
    "semanticscholar.org", "ncbi.nlm.nih.gov")
# fmt: on


class MediaWiki:
    """Search: the addresses of the articles found."""

    def __init__(self, url: str = URL, article: str = "/wiki/", *, trusted: bool = False) -> None:
        self._url = url
        self._articles = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{article}"
        self._trusted = trusted

    def request(self, want: Want) -> Request:
        params = (
            *(("action", "query"), ("list", "search"), ("format", "json"), ("maxlag", "5")),
            *(("srsearch", worded(want.query, want.genre)), ("srlimit", str(min(SIZE, want.limit)))),
            ("sroffset", str(want.page * min(SIZE, want.limit))),
        )
        return Request(url=self._url, params=params, trusted=self._trusted)

    def read(self, tree: object, want: Want) -> Leaf:  # noqa: ARG002 the shape's signature
        if failure := search_error_of(tree):
            return Leaf([], False, failure)
        urls = [self._articles + quote(title.replace(" ", "_"), safe="/:(),'!*@") for title in titles_of(tree)]
        return Leaf(urls, at(tree, "continue") is not None)

    def explain(self, failure: Failure, tree: object) -> Failure:
        return error_of(tree) or failure


class MediaWikiLinks:
    """The external links of the articles found: picked by hand by whoever wrote them."""

    def __init__(self, name: str, client: EngineClient, search: MediaWiki, url: str = URL, articles: int = 5) -> None:
        self.name = name
        self._client = client
        self._search = search
        self._url = url
        self._articles = articles

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:
        """One answer: links with words of the query in their address first, else in the order of the articles."""
        asked = self._search.request(Want(query, genre, 0, self._articles))
        tree = json_of(await self._client.ask(asked))
        failure = tree if isinstance(tree, Failure) else search_error_of(tree)
        titles = [] if failure else titles_of(tree)[: self._articles]
        links: list[str] = []
        if titles:
            links, failure = await self._links(titles, asked.trusted)
        best = by_words(dict.fromkeys(filter(_is_seed, links)), query)[:limit]
        hits = tuple(Hit(url=url, rank=rank) for rank, url in enumerate(best, 1))
        return [Answer(voter=self.name, hits=hits, failure=failure)]

    async def _links(self, titles: Sequence[str], trusted: bool) -> tuple[list[str], Failure | None]:
        links: list[str] = []
        more: tuple[tuple[str, str], ...] = ()
        for _ in range(self._client.terms.pages):
            params = (
                *(("action", "query"), ("prop", "extlinks"), ("format", "json"), ("formatversion", "2")),
                *(("ellimit", "500"), ("maxlag", "5"), ("titles", "|".join(titles)), *more),
            )
            tree = json_of(await self._client.ask(Request(url=self._url, params=params, trusted=trusted)))
            failure = tree if isinstance(tree, Failure) else error_of(tree)
            if failure:
                return links, failure
            links += links_of(tree)
            following = at(tree, "continue")
            if not isinstance(following, dict):
                break
            more = tuple((str(k), str(v)) for k, v in following.items())
        return links, None


def titles_of(tree: object) -> list[str]:
    """The titles that a search found."""
    return [title for entry in entries(tree, "query", "search") if (title := text(entry, "title"))]


def links_of(tree: object) -> list[str]:
    """The external links of all articles of an answer, in both shapes."""
    pages = at(tree, "query", "pages")
    listed = list(pages.values()) if isinstance(pages, dict) else pages if isinstance(pages, list) else []
    found = [text(link, "url") or text(link, "*") for page in listed for link in entries(page, "extlinks")]
    return [f"https:{url}" if url.startswith("//") else url for url in found]


def error_of(tree: object) -> Failure | None:
    """The error in an answer whose status says that all is well."""
    code, told = text(tree, "error", "code"), text(tree, "error", "info")
    if not code:
        return None
    return Failure("limit" if code in ("maxlag", "ratelimited") else "answer", f"{code}: {told}"[:200])


def search_error_of(tree: object) -> Failure | None:
    """The same of a search, which also tells what it found."""
    known = listed(tree, "query", "search", sign="batchcomplete") is not None
    return error_of(tree) or (None if known else OTHER_SHAPE)


def _is_seed(url: str) -> bool:
    host = urlsplit(url).hostname if url.startswith(("http://", "https://")) else None
    return bool(host) and not any(host == known or str(host).endswith(f".{known}") for known in NO_SEEDS)
