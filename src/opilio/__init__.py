"""Opilio: a focused web crawler and topical search engine.

The names in `__all__` are the public Python API (docs/api.md). They are imported when they are first used, so that
`import opilio` costs nothing.
"""

# Type checkers take this for True; importing `typing` would take ten times as long as everything else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from opilio.api.collection import CollectionView as CollectionView
    from opilio.api.collection import open as open
    from opilio.api.crawling import acrawl as acrawl
    from opilio.api.crawling import crawl as crawl
    from opilio.api.lab import Comparison as Comparison
    from opilio.api.lab import DemoWeb as DemoWeb
    from opilio.api.lab import compare as compare
    from opilio.api.lab import demo_web as demo_web
    from opilio.core.errors import CollectionError as CollectionError
    from opilio.core.errors import ConfigError as ConfigError
    from opilio.core.errors import OpilioError as OpilioError
    from opilio.core.errors import QueryError as QueryError
    from opilio.core.errors import SeedError as SeedError
    from opilio.core.errors import TopicError as TopicError
    from opilio.core.errors import UsageError as UsageError
    from opilio.core.events import Event as Event
    from opilio.manage.pages import PageTable as PageTable
    from opilio.manage.pages import StoredPage as StoredPage
    from opilio.manage.results import Explanation as Explanation
    from opilio.manage.results import LabelReport as LabelReport
    from opilio.manage.results import PageHistory as PageHistory
    from opilio.manage.results import Status as Status
    from opilio.search.passages import PassageResults as PassageResults
    from opilio.search.results import SearchFilters as SearchFilters
    from opilio.search.results import SearchHit as SearchHit
    from opilio.search.results import SearchResults as SearchResults

__version__ = "0.1.0"

_MODULES = {
    "opilio.api.collection": ("CollectionView", "open"),
    "opilio.api.lab": ("Comparison", "DemoWeb", "compare", "demo_web"),
    "opilio.api.crawling": ("acrawl", "crawl"),
    "opilio.core.errors": (
        "CollectionError",
        "ConfigError",
        "OpilioError",
        "QueryError",
        "SeedError",
        "TopicError",
        "UsageError",
    ),
    "opilio.core.events": ("Event",),
    "opilio.manage.pages": ("PageTable", "StoredPage"),
    "opilio.manage.results": ("Explanation", "LabelReport", "PageHistory", "Status"),
    "opilio.search.passages": ("PassageResults",),
    "opilio.search.results": ("SearchFilters", "SearchHit", "SearchResults"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["__version__", *sorted(_MODULE_OF)]  # noqa: PLE0604 - names that are imported lazily


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'opilio' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
