"""One module per group of pages, and the list of all pages and actions."""

from opilio.web.context import ActionRoute, PageRoute
from opilio.web.pages import (
    annotations,
    crawl,
    crawl_guide,
    hosts,
    manage,
    new_crawl,
    overview,
    page,
    queue,
    search,
    stored_copy,
    topic,
)

_PAGE_MODULES = (
    *(overview, search, new_crawl, crawl_guide, crawl, manage, page, stored_copy),
    *(annotations, topic, queue, hosts),
)
PAGES: tuple[PageRoute, ...] = tuple(page for part in _PAGE_MODULES for page in getattr(part, "PAGES", ()))
ACTIONS: tuple[ActionRoute, ...] = tuple(action for part in _PAGE_MODULES for action in getattr(part, "ACTIONS", ()))
