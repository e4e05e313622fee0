"""The fetcher for the live web, as settings want it."""

from opilio import __version__
from opilio.core.clock import Clock
from opilio.core.settings import Settings
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import FetchLimits, NetworkOptions


def build_fetcher(settings: Settings, clock: Clock | None = None) -> CurlFetcher:
    """The fetcher for the live web."""
    fetch = settings.fetch
    network = NetworkOptions(
        proxy=fetch.proxy,
        resolve=fetch.resolve,
        verify_tls=fetch.verify_tls,
        allow_private=fetch.allow_private,
        connections=settings.engine.connections,
    )
    limits = FetchLimits(body_bytes=fetch.max_bytes, total_s=fetch.timeout_s)
    return CurlFetcher(user_agent(settings), limits=limits, network=network, clock=clock)


def user_agent(settings: Settings) -> str:
    """An honest name with an address to write to."""
    polite = settings.politeness
    return f"{polite.agent}/{__version__} (+{polite.contact})"
