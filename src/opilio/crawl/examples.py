"""Example pages of a topic, from files or URLs, as text."""

from pathlib import Path

from opilio.crawl.config import Settings, TopicSettings
from opilio.crawl.fetching import fetcher_of
from opilio.fetch.following import follow
from opilio.model.errors import ConfigError, ParseError
from opilio.model.protocols import Fetcher
from opilio.model.records import Fetched, Page
from opilio.parse.html import HtmlParser
from opilio.text.guess import guessed


async def read_examples(places: list[str], fetcher: Fetcher, option: str) -> tuple[str, ...]:
    """The main text of each example; ConfigError names the one that can't be had."""
    pages = [await read_page(place, fetcher, option) for place in places]
    return tuple(f"{page.title}\n{page.main_text}" for page in pages)


async def spoken_in(settings: Settings) -> str:
    """The language that a topic's example pages are plainly in; empty where that is English, or can't be told."""
    fetcher = fetcher_of(settings)
    try:
        return guessed(" ".join(await read_examples(settings.topic.examples, fetcher, "topic.examples")))
    finally:
        await fetcher.close()


def check_files(topic: TopicSettings) -> None:
    """Complain of files that are no pages before anything is made; pages of the web are asked for when it is."""
    for option in ("examples", "counterexamples"):
        for place in getattr(topic, option):
            if not _of_the_web(place):
                _page_in(_from_file(Path(place), f"topic.{option}"), place, f"topic.{option}")


async def read_page(place: str, fetcher: Fetcher, option: str) -> Page:
    """A page from a file or a URL; ConfigError where it can't be had."""
    fetched = await follow(fetcher, place) if _of_the_web(place) else _from_file(Path(place), option)
    return _page_in(fetched, place, option)


def _of_the_web(place: str) -> bool:
    return "://" in place


def _page_in(fetched: Fetched, place: str, option: str) -> Page:
    if fetched.failure is not None or not 200 <= fetched.status < 300:
        cause = fetched.failure.kind if fetched.failure else f"status {fetched.status}"
        raise ConfigError(f"{option} '{place}': can't be fetched ({cause}); save the page and name the file instead")
    try:
        return HtmlParser().parse(fetched)
    except ParseError as error:
        raise ConfigError(f"{option} '{place}': is no page that can be read: {error}") from error


def _from_file(path: Path, option: str) -> Fetched:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} '{path}': can't be read: {error.strerror}") from error
    kind = "text/html" if path.suffix.lower() in (".html", ".htm", ".xhtml") else ""
    headers = (("Content-Type", kind),) if kind else ()
    return Fetched(url="https://example.invalid/", status=200, headers=headers, body=body)
