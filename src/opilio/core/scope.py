"""Which URLs and pages belong to a crawl: the rules of `[scope]`.

A rule about URLs is `example.org` (the domain and its subdomains), `=www.example.org` (this host only),
`example.org/docs/*` (a path pattern on them) or `/docs/*` (a path pattern on any host). `*` and `?` match as in a
shell; the pattern covers path and query. A rule of `deny` wins over `allow`.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from urllib.parse import urlsplit

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.urls import canonicalize_url, host_of

OUT_OF_SCOPE = "out of scope"
_DOMAIN = re.compile(r"=?[^\s/*?#@:]+(:\d+)?")


class ScopeSettings(msgspec.Struct, kw_only=True):
    """An empty list of `allow`, `languages` or `types` allows everything."""

    allow: list[str] = []
    deny: list[str] = []
    # Codes; pages in other languages are not stored.
    languages: list[str] = []
    deny_languages: list[str] = []
    types: list[str] = []  # media types such as text/html
    deny_types: list[str] = []


class ScopeRule:
    """One rule of `scope.allow` or `scope.deny`."""

    def __init__(self, text: str, option: str) -> None:
        self.text = text
        domain, slash, path = text.strip().partition("/")
        if not (domain or path) or (domain and not _DOMAIN.fullmatch(domain)):
            raise ConfigError(
                f"{option} '{text}': not a valid rule; write a domain or a path pattern without a scheme, "
                "for example example.org, example.org/docs/* or /docs/*"
            )
        self._host = _ascii_host(domain.removeprefix("="))
        self._with_subdomains = not domain.startswith("=")
        self._matches_path = re.compile(translate(f"/{path}")).match if slash and path else None

    def matches(self, host: str, path: str) -> bool:
        """Whether the rule covers this path (with its query) of a host."""
        if self._host and host != self._host and not (self._with_subdomains and host.endswith(f".{self._host}")):
            return False
        return self._matches_path is None or self._matches_path(path) is not None


class UrlScope:
    """Decides by URL. Pure."""

    def __init__(self, settings: ScopeSettings) -> None:
        self._allow = [ScopeRule(text, "scope.allow") for text in settings.allow]
        self._deny = [ScopeRule(text, "scope.deny") for text in settings.deny]

    def refusal_reason(self, url: str) -> str:
        """The rule that excludes a canonical URL; empty if it belongs to the crawl.

        >>> UrlScope(ScopeSettings(allow=["example.org"], deny=["/ads/*"])).refusal_reason("http://a.example/")
        'out of scope: no rule of --site or --allow (scope.allow) matches'
        """
        if not self._allow and not self._deny:
            return ""
        parts = urlsplit(url)
        # Rules name a port only where it matters.
        hosts = {parts.hostname or "", parts.netloc}
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        for rule in self._deny:
            if any(rule.matches(host, path) for host in hosts):
                return f"{OUT_OF_SCOPE}: scope.deny {rule.text}"
        if self._allow and not any(rule.matches(host, path) for rule in self._allow for host in hosts):
            return f"{OUT_OF_SCOPE}: no rule of --site or --allow (scope.allow) matches"
        return ""


def page_refusal(settings: ScopeSettings, content_type: str, language: str) -> str:
    """The rule that excludes a fetched page; empty if it belongs to the crawl. Unknown languages are allowed."""
    checks = (
        ("scope.types", content_type, settings.types, settings.deny_types),
        ("scope.languages", language, settings.languages, settings.deny_languages),
    )
    for option, value, allowed, denied in checks:
        if value and ((allowed and not _listed(value, allowed)) or _listed(value, denied)):
            return f"{value} is not in {option}" if not _listed(value, denied) else f"{value} is denied"
    return ""


def _ascii_host(domain: str) -> str:
    """A host as canonical URLs have it.

    >>> _ascii_host("Bücher.example:8080")
    'xn--bcher-kva.example:8080'
    """
    url = None if domain.isascii() else canonicalize_url(f"http://{domain}/")
    return host_of(url) if url else domain.lower()


def _listed(value: str, names: Sequence[str]) -> bool:
    return value.lower() in {name.strip().lower() for name in names}
