"""The fetcher for the live web, as settings want it."""

from opilio import __version__
from opilio.crawl.config import Settings
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.limits import Limits, Network
from opilio.model.clock import Clock


def fetcher_of(settings: Settings, clock: Clock | None = None) -> CurlFetcher:
    """The fetcher for the live web."""
    fetch = settings.fetch
    network = Network(
        proxy=fetch.proxy,
        resolve=fetch.resolve,
        verify_tls=fetch.verify_tls,
        allow_private=fetch.allow_private,
        connections=settings.engine.connections,
    )
    limits = Limits(body_bytes=fetch.max_bytes, total_s=fetch.timeout_s)
    return CurlFetcher(user_agent(settings), limits=limits, network=network, clock=clock)


def user_agent(settings: Settings) -> str:
    """An honest name with an address to write to."""
    polite = settings.politeness
    return f"{polite.agent}/{__version__} (+{polite.contact})"
