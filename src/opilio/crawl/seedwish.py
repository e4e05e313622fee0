"""What a configuration wishes for: the query that engines are asked, and which of their addresses may be used."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from opilio.crawl.config import Settings
from opilio.fetch.addresses import leads_home
from opilio.model.records import Seed
from opilio.seeds.finder import Wish

QUERY_WORDS = 5  # of the keywords, where a topic has no name


def wish_of(settings: Settings, genres: Sequence[str] = ()) -> Wish:
    """What engines are asked: the topic as it was named, or its keywords (S4-12); each genre by itself (S3-02)."""
    topic, seeds = settings.topic, settings.seeds
    query = topic.name or " ".join(list(topic.keywords)[:QUERY_WORDS])
    wanted = tuple(dict.fromkeys("" if genre == "web" else genre for genre in (genres or topic.genres)))
    return Wish(query=query, genres=wanted or ("",), limit=seeds.limit, agree=seeds.agree)


def may_be_fetched(settings: Settings, seed: Seed) -> bool:
    """An engine may name an address of our own network: a person's seed would be refused, this one is left out."""
    allowed = settings.fetch.allow_private or settings.fetch.proxy != ""
    return allowed or not leads_home(urlsplit(seed.url).hostname or "")
