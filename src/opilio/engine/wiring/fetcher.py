"""The fetcher for the live web, built from the settings."""

from opilio import __version__
from opilio.core.clock import Clock
from opilio.core.protocols import Fetcher
from opilio.core.registry import FETCHERS, load_plugin
from opilio.core.settings import Settings
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import FetchLimits, NetworkOptions
from opilio.text.languages import language_code


def build_fetcher(settings: Settings, clock: Clock | None = None) -> Fetcher:
    """The fetcher that `fetch.client` names."""
    fetcher: Fetcher = load_plugin(FETCHERS, settings.fetch.client, "fetch.client")(settings, clock)
    return fetcher


def build_curl_fetcher(settings: Settings, clock: Clock | None = None) -> Fetcher:
    """The fetcher on libcurl."""
    fetch = settings.fetch
    network = NetworkOptions(
        proxy=fetch.proxy,
        resolve=fetch.resolve,
        verify_tls=fetch.verify_tls,
        allow_private=fetch.allow_private,
        connections=settings.engine.connections,
        cookies=fetch.cookies,
        language=language_code(settings.topic.language),
    )
    limits = FetchLimits(body_bytes=fetch.max_bytes, total_s=fetch.timeout_s)
    return CurlFetcher(user_agent(settings), limits=limits, network=network, clock=clock)


def user_agent(settings: Settings) -> str:
    """The user agent: our name and version, with an address for complaints."""
    polite = settings.politeness
    return f"{polite.agent}/{__version__} (+{polite.contact})"
