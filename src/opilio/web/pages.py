"""Every page and action there is."""

from opilio.web import (
    crawlpage,
    eventpage,
    graphpage,
    homepage,
    hostpages,
    listpages,
    newpage,
    pagedetail,
    queuepage,
    runspage,
    searchpage,
    topicpage,
)
from opilio.web.desk import Action, Page

_PARTS = (
    homepage, searchpage, runspage, newpage, crawlpage, pagedetail, listpages, topicpage, queuepage, hostpages,
    graphpage, eventpage,
)  # fmt: skip
PAGES: tuple[Page, ...] = tuple(page for part in _PARTS for page in getattr(part, "PAGES", ()))
ACTIONS: tuple[Action, ...] = tuple(action for part in _PARTS for action in getattr(part, "ACTIONS", ()))
