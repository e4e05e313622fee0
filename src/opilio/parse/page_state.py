"""Soft 404 pages, and the words of a page that do not change by themselves.

Many servers report a missing page only in words, with status 200. A page is a soft 404 if its title or first heading
says so and it has next to no other text, so that a page about the error is not one. `stable_words` removes ads, clocks,
dates and counters to compare two versions of a page, and numbers outside sentences. It parses the page twice more, so
it is used only if the fingerprints of the versions differ.
"""

import re

import turbohtml
from msgspec.structs import replace

from opilio.core.errors import ParseError
from opilio.core.records import CHALLENGE, CONSENT, LOGIN, Failure, FetchResult, Page
from opilio.parse.html import HtmlParser

MAX_SOFT_404_WORDS = 120
# Phrases in the most common languages of the web; a bare number only as the whole title.
_NOT_FOUND_PHRASES = re.compile(
    r"\b(?:(?:page|file|document|article|url|resource|content|item)\b.{0,25}?\b(?:not found|not exist|no longer|missing"
    r"|removed|deleted|unavailable)|not found(?=\s*(?:$|[|:.!–—-]))|error 404"
    r"|404 (?:error|not found|page)|no such (?:page|file)"
    r"|(?:cannot|can't|could not|couldn't) (?:be found|find)|seite (?:wurde )?nicht gefunden|nicht gefunden"
    r"|page (?:introuvable|non trouvée)|página no encontrada|no encontrad[ao]|página não encontrada|não encontrad[ao]"
    r"|pagina non trovata|pagina niet gevonden|страница не найдена|не найдена|页面不存在|找不到"
    r"|ページが見つかりません)",
    re.IGNORECASE,
)
# Possessive quantifiers: a title of punctuation is read once, not once from each position.
_BARE_STATUS = re.compile(r"^\W*+(?:error\s*+)?(?:404|410)\W*+(?:error\W*+)?$", re.IGNORECASE)


def soft_404_phrase(page: Page) -> str:
    """The phrase that identifies a soft 404 page; empty for any other page.

    >>> soft_404_phrase(Page(url="http://a.example/x", title="Page not found | A", flow="Sorry."))
    'Page not found'
    """
    texts = [page.title, *(text for _, text in page.headings[:1])]
    found = next((m for m in (_NOT_FOUND_PHRASES.search(t) or _BARE_STATUS.match(t) for t in texts) if m), None)
    if found is None or len(page.main_text.split()) > MAX_SOFT_404_WORDS:
        return ""
    return " ".join(found[0].split())[:80]


# A wall is a short page; a consent form lists the purposes.
MAX_WALL_WORDS, MAX_CONSENT_WORDS = 150, 300
# Most pages have more, so their titles need no comparison.
_MAX_WALL_CHARS = 40 * MAX_WALL_WORDS
# A shorter page may be one without a known title.
_MAX_MARKED_CHARS = 1_500
_MAX_WALL_LINKS = 20  # it has no menu of the site
_TITLE_SEPARATORS = re.compile(" ?[|·•»] ?| [-–—/] ")
# The whole name of the page: a poem may be called "Just a moment in time". Quick to refuse by its first letter.
_CHALLENGE = re.compile(
    r"(?:just a moment|attention required|checking your browser(?: before .*)?|one more step"
    r"|(?:vercel )?security check(?:point)?|access (?:to this page has been )?denied|pardon our interruption"
    r"|are you (?:a )?(?:robot|human)|verify(?:ing)? (?:that )?you are (?:a )?human(?:\. .{0,60})?"
    r"|(?:human|browser) verification"
    r"|robot check|making sure you.{1,8}re not a bot|checking (?:that )?you are not a bot|client challenge|please wait"
    r"|ddos-guard|nur einen moment|un (?:instant|momento)|een moment geduld|百度安全验证|しばらくお待ちください)\W*",
    re.IGNORECASE,
)
# What a challenge says of itself, in the title or the text.
_ABOUT_VISITORS = re.compile(
    r"javascript|browser|captcha|\b(?:ro)?bots?\b|human|verif|vérif|überprüf|permission|blocked|cloudflare|ddos|ray id"
    r"|reference #|incident|automated|unusual|challenge|check(?:ing|point)|page has been denied|press & hold|安全",
    re.IGNORECASE,
)
# Services that put a challenge in front of pages, by a header, and by what their challenge pages contain. Their scripts
# for statistics are on ordinary pages too, also on those of missing pages.
_CHALLENGE_HEADERS = {
    "cf-mitigated": "Cloudflare",
    "x-amzn-waf-action": "AWS WAF",
    "x-vercel-mitigated": "Vercel",
}
_CHALLENGE_ACTIONS = ("challenge", "captcha")
_CHALLENGE_STATUSES = frozenset({401, 403, 405, 406, 429, 503})
_CHALLENGE_MARKS = (
    (b"_cf_chl_opt", "Cloudflare"),
    (b"/orchestrate", "Cloudflare"),
    (b"/chl_page", "Cloudflare"),
    (b"captcha-delivery.com", "DataDome"),
    (b"WUDNSAI=", "Imperva"),
    (b"Incapsula incident", "Imperva"),
    (b"px-captcha", "HUMAN"),
    (b"/.within.website/x/cmd/anubis/", "Anubis"),
    (b"/errors/validateCaptcha", "Amazon"),
)
_MAX_CHALLENGE_BYTES = 100_000
_LOGIN = re.compile(
    r"(?!how|why|what|where|when|can|unable)(?:[\w']{1,20}+ ){0,2}(?:log ?[io]n|sign ?in|anmeld(?:en|ung)|einloggen"
    r"|se connecter|connexion|iniciar sesi[oó]n|acceder|accedi|inloggen|entrar|войти|вход|zaloguj się"
    r"|ログイン|登录|登入|로그인)"
    r"(?: (?:to|at|with|or|and|page|form|required|bei|zu|à) ?[^.?!]{0,40}| page| form| required)?\W*",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"(?:before you continue(?: to .*)?|cookie (?:consent|wall)|your privacy choices|we value your privacy|consent"
    r"|bevor sie .{0,30}(?:fortfahren|weitergehen)|avant (?:de continuer|d.accéder)(?: .*)?|antes de continuar(?: .*)?)"
    r"\W*",
    re.IGNORECASE,
)
_ACCEPT = re.compile(
    r"\b(?:(?:i )?(?:accept|agree)|reject all|(?:alle )?akzeptieren|zustimm\w*|accepter|aceptar|accetta\w*)\b",
    re.IGNORECASE,
)
# With the text after it: a button's own is not part of a page's text.
_FORM_FIELD = re.compile(rb"<(?:form|button|input)\b[^<>]*>(?:\s*<[^<>]*>){0,3}[^<>]*", re.IGNORECASE)
_PASSWORD_FIELD = re.compile(rb"""<input[^<>]*\stype\s*=\s*["']?password""", re.IGNORECASE)


def challenge_header(fetched: FetchResult) -> str:
    """The service that answered with a challenge instead of the page, as its headers say; else empty."""
    for name, value in fetched.headers:
        service = _CHALLENGE_HEADERS.get(name.lower())
        if service and value.strip().lower() in _CHALLENGE_ACTIONS:
            return service
    return ""


def refused_by_challenge(fetched: FetchResult) -> Failure | None:
    """The failure of a response with an error status that is a challenge; None for other errors."""
    if fetched.status < 400:
        return None
    service = challenge_header(fetched)
    if not service and fetched.status in _CHALLENGE_STATUSES:
        service = _marked_service(fetched)
    return Failure(CHALLENGE, f"{service}, status {fetched.status}") if service else None


def _marked_service(fetched: FetchResult) -> str:
    start = fetched.body[:_MAX_CHALLENGE_BYTES]
    return next((name for mark, name in _CHALLENGE_MARKS if mark in start), "")


def find_wall(page: Page, fetched: FetchResult) -> Failure | None:
    """Why a response is a challenge, a login form or a consent form instead of a page; None for a page.

    A page about walls is not one: a wall is short and shows what it asks for.
    """
    if service := challenge_header(fetched):
        return Failure(CHALLENGE, service)
    if len(page.flow) > _MAX_WALL_CHARS:
        return None
    titles = [text.strip() for text in (page.title, *(text for _, text in page.headings[:1])) if text]
    for title in titles:
        if (kind := _wall_kind(title)) and _is_wall(kind, page, fetched.body):
            return Failure(kind, title[:80])
    service = _marked_service(fetched) if len(page.flow) <= _MAX_MARKED_CHARS else ""
    return Failure(CHALLENGE, service) if service and _is_wall(CHALLENGE, page, fetched.body) else None


def _wall_kind(title: str) -> str:
    """The kind of wall that is named so; empty for any other title."""
    for part in (title, *_TITLE_SEPARATORS.split(title)):
        for kind, names in _WALLS:
            if names(part):
                return kind
    return ""


_WALLS = ((CHALLENGE, _CHALLENGE.fullmatch), (CONSENT, _CONSENT.fullmatch), (LOGIN, _LOGIN.fullmatch))


def _is_wall(kind: str, page: Page, body: bytes) -> bool:
    """Whether a page that is named like a wall is one."""
    text = page.text
    if len(text.split()) > (MAX_CONSENT_WORDS if kind == CONSENT else MAX_WALL_WORDS):
        return False
    if kind == LOGIN:
        return _PASSWORD_FIELD.search(body) is not None
    if len(page.links) > _MAX_WALL_LINKS:
        return False
    if kind == CONSENT:
        return any(_ACCEPT.search(field.decode("utf-8", "replace")) for field in _FORM_FIELD.findall(body))
    return _ABOUT_VISITORS.search(f"{page.title} {text}") is not None


# Class names and ids that ad networks use and ad blockers filter.
_AD_SELECTORS = (
    "ins.adsbygoogle,iframe,[class~=ad],[class~=ads],[class~=advert],[class*=advertis],[class*=sponsor],[class~=banner],"
    "[class~=promo],[id=ad],[id^=ad-],[id^=ads-],[id*=advert],[id^=google_ads],[data-ad-slot],[aria-label=advertisement]"
)
_HTML_HEADER = ("Content-Type", "text/html; charset=utf-8")
# Words of letters, and numbers that are not part of a time, a date or an identifier.
_WORD_OR_NUMBER = re.compile(r"[^\W\d_]{2,}|(?<![\w:.,/-])\d{1,9}(?:[.,]\d{1,3})*+(?![\w:/-]|[.,]\d)")
# Words of a block from which it is a sentence. Counters mostly stand in shorter ones.
MIN_SENTENCE_WORDS = 8
# Words between a number and a word that makes it a date, a time or a counter.
_NUMBER_CONTEXT = 2
_CALENDAR_WORDS = frozenset(
    (
        "january february march april may june july august september october november december jan feb mar apr jun jul"
        " aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun"
        " am pm gmt utc cet cest est edt pst pdt today yesterday ago second seconds minute minutes hour hours day days"
        " st nd rd th"
    ).split()
)
# Beside a number that grows with every visit.
_COUNTER_WORDS = frozenset(
    (
        "visit visits visitor visitors view views viewed viewer viewers hit hits accessed times online user users"
        " member members guest guests reader readers follower followers subscriber subscribers comment comments reply"
        " replies like likes share shares download downloads vote votes point points result results"
        " generated loaded rendered query queries"
    ).split()
)


def stable_words(fetched: FetchResult) -> list[str] | None:
    """The words of the main text that do not change by themselves, and the numbers in its sentences; None if there is
    no page.

    >>> html = (("Content-Type", "text/html"),)
    >>> one, other = (FetchResult(url="http://a.example/", headers=html, body=body) for body in
    ...     (b"<p>A wren, at 10:15 on 3rd May", b"<p>A wren, at 23:59 on Monday<div class=ad>Boots!</div>"))
    >>> stable_words(one) == stable_words(other) == ["wren", "at", "on"]
    True
    """
    try:
        if "html" in fetched.header("content-type"):
            document = turbohtml.parse(fetched.converted or fetched.body, detect_encoding=True, positions=False)
            document.remove(_AD_SELECTORS)
            body = str(document.html).encode("utf-8", "replace")
            fetched = replace(fetched, body=body, converted=b"", headers=(_HTML_HEADER,))
        text = HtmlParser(paths=False).parse(fetched).main_text
    except ParseError:
        return None
    return [word for block in text.lower().split("\n") for word in _stable_words_of(block)]


def _stable_words_of(block: str) -> list[str]:
    """
    >>> _stable_words_of("in 2027 the park will have 33 turbines, 5 days after its third birthday")[:8]
    ['in', '2027', 'the', 'park', 'will', 'have', '33', 'turbines']
    >>> _stable_words_of("this page has been accessed 1,234 times since the opening of the park")[4:7]
    ['accessed', 'times', 'since']
    """
    found = _WORD_OR_NUMBER.findall(block)
    words = [word for word in found if not word[0].isdecimal() and word not in _CALENDAR_WORDS]
    if len(words) == len(found) or len(words) < MIN_SENTENCE_WORDS:
        return words
    ignored = _CALENDAR_WORDS | _COUNTER_WORDS
    return [
        word
        for at, word in enumerate(found)
        if word not in _CALENDAR_WORDS
        and not (
            word[0].isdecimal() and ignored.intersection(found[max(0, at - _NUMBER_CONTEXT) : at + _NUMBER_CONTEXT + 1])
        )
    ]
