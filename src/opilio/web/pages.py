"""Every page and action there is."""

from opilio.web import crawlpage, eventpage, homepage, hostpages, listpages, pagedetail, queuepage
from opilio.web.desk import Action, Page

_PARTS = (homepage, crawlpage, pagedetail, listpages, queuepage, hostpages, eventpage)
PAGES: tuple[Page, ...] = tuple(page for part in _PARTS for page in getattr(part, "PAGES", ()))
ACTIONS: tuple[Action, ...] = tuple(action for part in _PARTS for action in getattr(part, "ACTIONS", ()))
