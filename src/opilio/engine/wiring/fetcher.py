"""The fetcher of a crawl, built from the settings (for the live web or for archives), and the documents it receives."""

from collections.abc import Callable, Container
from pathlib import Path

import msgspec
from platformdirs import user_cache_path

from opilio import __version__
from opilio.core.clock import Clock
from opilio.core.protocols import Fetcher, ReadsArchives
from opilio.core.records import CONTENT_TYPE_FAILURE, SCOPE_FAILURE, Failure
from opilio.core.registry import FETCHERS, load_plugin
from opilio.core.scope import page_refusal
from opilio.core.settings import FetchSettings, Settings
from opilio.engine.rendering import BrowserTools
from opilio.fetch.archive import ArchiveFetcher, ArchiveWeb
from opilio.fetch.browser import BrowserLimits, ChromiumBrowser, find_chromium
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import AnyResponse, FetchLimits, NetworkOptions, ResponseFilter
from opilio.fetch.identity import Credentials, RequestIdentity, RequestSigner
from opilio.parse.documents.formats import document_formats, extensions_of_types, missing_types, readable_types
from opilio.text.languages import language_code

# Of a crawl of archives: leases of many URLs are cheaper, and so are commits of many pages.
ARCHIVE_URLS_PER_LEASE = 16
# In flight, however many hosts they are of.
ARCHIVE_URLS_PER_CONNECTION = 4
# More than are in flight: a commit is due when half of them are finished.
ARCHIVE_BATCH = 1_024

BuildFetcher = Callable[[Settings, Clock], Fetcher]


def build_fetcher(settings: Settings, clock: Clock | None = None) -> Fetcher:
    """The fetcher that `fetch.client` names, or one that reads `fetch.archives`."""
    if settings.fetch.archives:
        return ArchiveFetcher(open_archives(settings))
    fetcher: Fetcher = load_plugin(FETCHERS, settings.fetch.client, "fetch.client")(settings, clock)
    return fetcher


def open_archives(settings: Settings) -> ArchiveWeb:
    """The web of `fetch.archives`; OfflineWebError names a file that can't be read."""
    return ArchiveWeb([Path(name) for name in settings.fetch.archives], user_cache_path("opilio") / "archives")


def reuse_archives(web: ArchiveWeb | None) -> BuildFetcher | None:
    """Builds the fetcher of archives that were opened before; None if there are none."""
    return None if web is None else lambda _settings, _clock: ArchiveFetcher(web)


def visiting_fetcher(fetcher: Fetcher, settings: Settings) -> Fetcher:
    """The fetcher of pages: those of archives are read by the workers, unless a browser needs them here."""
    return fetcher.for_workers() if isinstance(fetcher, ReadsArchives) and not settings.browser.on else fetcher


def archived_urls(fetcher: Fetcher) -> Container[str] | None:
    """The URLs that a fetcher of archives can answer; None for the live web."""
    return fetcher.urls if isinstance(fetcher, ReadsArchives) else None


def adapt_to_archives(settings: Settings) -> Settings:
    """Settings of a run over archives: no delays, because no server is asked, and no search engines.

    They are not stored: a later run on the live web needs its delays.
    """
    if not settings.fetch.archives:
        return settings
    politeness = {"delay_s": 0.0, "max_crawl_delay_s": 0.0, "share_address": False}
    engine = settings.engine
    return msgspec.structs.replace(
        settings,
        politeness=msgspec.structs.replace(settings.politeness, **politeness),
        engine=msgspec.structs.replace(
            engine,
            connections=engine.connections * ARCHIVE_URLS_PER_CONNECTION,
            batch=max(engine.batch, ARCHIVE_BATCH),
        ),
        seeds=msgspec.structs.replace(settings.seeds, offline=True),
    )


def build_identity(fetch: FetchSettings) -> RequestIdentity | None:
    """Credentials and signature of requests; None if neither is configured. ConfigError names an invalid file."""
    if not fetch.credentials and not fetch.signature_key:
        return None
    return RequestIdentity(
        Credentials.read(Path(fetch.credentials)) if fetch.credentials else None,
        RequestSigner.read(Path(fetch.signature_key), fetch.signature_agent) if fetch.signature_key else None,
    )


def build_curl_fetcher(settings: Settings, clock: Clock | None = None, accept: ResponseFilter | None = None) -> Fetcher:
    """The fetcher on libcurl; `accept` replaces the filter of responses."""
    fetch = settings.fetch
    network = NetworkOptions(
        proxy=fetch.proxy,
        resolve=fetch.resolve,
        verify_tls=fetch.verify_tls,
        allow_private=fetch.allow_private,
        connections=settings.engine.connections,
        cookies=fetch.cookies,
        language=language_code(settings.topic.language),
        identity=build_identity(settings.fetch),
    )
    limits = FetchLimits(body_bytes=fetch.max_bytes, document_bytes=fetch.max_document_bytes, total_s=fetch.timeout_s)
    accept = accept or build_response_filter(settings)
    return CurlFetcher(user_agent(settings), limits=limits, network=network, accept=accept, clock=clock)


def build_browser(settings: Settings, fetcher: Fetcher, clock: Clock | None = None) -> BrowserTools:
    """The browser for pages that need JavaScript; ConfigError if it is not installed.

    In a crawl of archives its requests are answered from the archives too.
    """
    fetch, browser = settings.fetch, settings.browser
    limits = BrowserLimits(timeout_s=browser.timeout_s, scrolls=browser.scrolls, dom_bytes=fetch.max_bytes)
    chromium = ChromiumBrowser(find_chromium(browser.path), user_agent(settings), limits)
    archived = archived_urls(fetcher) is not None
    return BrowserTools(chromium, fetcher if archived else build_curl_fetcher(settings, clock, AnyResponse()))


def build_response_filter(settings: Settings) -> ResponseFilter:
    """Pages, and the documents that can be read here and are in scope."""
    types = readable_types()
    denied = {kind: page_refusal(settings.scope, kind, "") for kind in types}
    refused = {kind: Failure(SCOPE_FAILURE, reason) for kind, reason in denied.items() if reason}
    missing = {kind: f"{kind}; {what}" for kind, what in missing_types().items()}
    refused |= {kind: Failure(CONTENT_TYPE_FAILURE, reason) for kind, reason in missing.items()}
    wanted = [kind for kind in types if kind not in refused]
    return ResponseFilter(wanted, extensions_of_types(wanted.__contains__), refused)


def unreadable_extensions(settings: Settings) -> dict[str, str]:
    """The extensions of documents that would not be received, with the reason."""
    return {
        extension: reason
        for kinds, extensions, missing in ((r.types, r.extensions, r.missing) for r in document_formats())
        for extension in extensions
        if (reason := missing or page_refusal(settings.scope, kinds[0], ""))
    }


def user_agent(settings: Settings) -> str:
    """The user agent: our name and version, with an address for complaints."""
    polite = settings.politeness
    return f"{polite.agent}/{__version__} (+{polite.contact})"
