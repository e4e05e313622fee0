"""Is this the page a server shows where it has none? Many say so in words only, with status 200 (soft 404). Pure.

Both must hold: the title or the first heading says it, and there is next to no other text. A page about the error, or a
long one with such a title, is a page.
"""

import re

from opilio.model.records import Page

MOST_WORDS = 120
# As such pages put it in the commonest languages of the web; the number alone only where it is the whole title.
_SAID = re.compile(
    r"\b(?:(?:page|file|document|article|url|resource|content|item)\b.{0,25}?\b(?:not found|not exist|no longer|missing"
    r"|removed|deleted|unavailable)|not found(?=\s*(?:$|[|:.!–—-]))|error 404"
    r"|404 (?:error|not found|page)|no such (?:page|file)"
    r"|(?:cannot|can't|could not|couldn't) (?:be found|find)|seite (?:wurde )?nicht gefunden|nicht gefunden"
    r"|page (?:introuvable|non trouvée)|página no encontrada|no encontrad[ao]|página não encontrada|não encontrad[ao]"
    r"|pagina non trovata|pagina niet gevonden|страница не найдена|не найдена|页面不存在|找不到"
    r"|ページが見つかりません)",
    re.IGNORECASE,
)
_BARE = re.compile(r"^\W*(?:error\s*)?(?:404|410)\W*(?:error)?\W*$", re.IGNORECASE)


def says_missing(page: Page) -> str:
    """The words by which a page says that it is none; nothing for any other page.

    >>> says_missing(Page(url="http://a.example/x", title="Page not found | A", flow="Sorry."))
    'Page not found'
    """
    told = [page.title, *(text for _, text in page.headings[:1])]
    found = next((m for m in (_SAID.search(t) or _BARE.match(t) for t in told) if m), None)
    if found is None or len(page.main_text.split()) > MOST_WORDS:
        return ""
    return " ".join(found[0].split())[:80]
