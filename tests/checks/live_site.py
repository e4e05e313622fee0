"""One site with every feature of docs/live-web.md, and what becomes of each of its URLs in a crawl.

The keys of `FEATURES` are the first cells of the tables there. A fate is "page", perhaps with what is recorded of it,
or the reason why a URL is not a page; "unknown" is a URL that the crawl never heard of.
"""

import asyncio
import gzip
import shutil
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import brotli
import pytest
import zstandard

from checks.documents import DOCBOOK, WREN, docx, epub, pdf
from checks.hostile_site import Behaviour, Request, answer, endless, raw
from checks.small_webs import BIRDS, word

ROOT = "http://a.example"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
MAX_BYTES = 60_000  # fetch.max_bytes of the crawl


class Feature(NamedTuple):
    """What a site does, the paths that the start page links to, and the fate of each URL."""

    answers: Mapping[str, Behaviour]
    fates: Mapping[str, str]
    linked: tuple[str, ...] | None = None  # None: all of `answers`


def needs_chromium() -> None:
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on this machine; `make test` installs it on Debian")


def text_of(path: str) -> str:
    """A text on the topic that no other page has."""
    return f"<p>{BIRDS} {word(zlib.crc32(path.encode()) % 10**6)}</p>"


def html(path: str, body: str = "", head: str = "", **headers: str) -> Behaviour:
    return answer(f"<html><head>{head}</head><body>{text_of(path)}{body}</body></html>".encode(), **headers)


def pages(*paths: str) -> dict[str, Behaviour]:
    return {path: html(path) for path in paths}


def link(path: str, attributes: str = "") -> str:
    return f'<a href="{path}" {attributes}>{path}</a> '


def sends(path: str, packed: bytes, encoding: str) -> dict[str, Behaviour]:
    return {path: answer(packed, content_encoding=encoding)}


def plain(path: str) -> bytes:
    return text_of(path).encode()


def moved(target: str, status: str = "302 Found", **headers: str) -> Behaviour:
    return answer(b"", status, location=target, **headers)


def with_cookie(path: str, target: str) -> Behaviour:
    """The page for visitors with the cookie; others are redirected to `target`, and get it."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> bool:
        known = "seen=1" in request.headers.get("cookie", "")
        return await (html(path) if known else moved(target, set_cookie="seen=1; Path=/"))(request, writer)

    return behave


ROBOTS = {
    "a.example": "User-agent: *\nDisallow: /private*.html$\nSitemap: http://a.example/maps/index.xml\n",
    "own.example": "User-agent: *\nDisallow: /\n\nUser-agent: opilio\nDisallow: /no\n",
    "mark.example": "\ufeffUser-agent: *\nDisallow: /no\n",
    "html.example": "<!DOCTYPE html><p>Disallow: /",
}


async def rules(request: Request, writer: asyncio.StreamWriter) -> bool:
    """The robots.txt of each host."""
    host = request.headers["host"].partition(":")[0]
    text = ROBOTS.get(host, "").encode()
    statuses = {"gone.example": "404 Not Found", "down.example": "503 Unavailable"}
    return await answer(text, statuses.get(host, "200 OK"), content_type="text/plain")(request, writer)


def sitemap(*urls: str, root: str = "urlset", entry: str = "url") -> bytes:
    return f"<{root}>{''.join(f'<{entry}><loc>{u}</loc></{entry}>' for u in urls)}</{root}>".encode()


LINKS = (
    "<a href=in-base>x</a><map><area href=/area></map><iframe src=/frame></iframe><noscript><a href=/noscript>x</a>"
    '</noscript><a href="\\back\\slash">x</a><a href="/new\nline">x</a><a href="/a?b=1&amp;c=2">x</a>'
    "<a href=/up/../dots>x</a><a href=HTTP://A.Example:80/case>x</a><a href=http://b\u00fccher.example/idn>x</a>"
)
SCRIPT_LINKS = (
    "<div onclick=\"location='/by-onclick'\">x</div><div data-href=/by-data-href>x</div>"
    '<script id=__NEXT_DATA__ type=application/json>{"href": "/by-next-data"}</script>'
    '<script type=application/ld+json>{"@type": "Thing", "url": "/by-json-ld"}</script>'
)
SHELL = (
    b"<title>App</title><div id=root></div><script>const root = document.getElementById('root');"
    b"fetch('/api/birds.json').then(a => a.json()).then(d => { root.innerHTML = d.html; });"
    b"fetch('/api/order', {method: 'POST', body: 'x'}).catch(() => {});"
    b"fetch('/api/order', {method: 'DELETE'}).catch(() => {});</script>"
)
PACKED = gzip.compress(" ".join(map(word, range(3_000))).encode())
DAMAGED = PACKED[: len(PACKED) // 2] + b"\xff" * 99 + PACKED[len(PACKED) // 2 :]
FEED = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{ROOT}/in-feed"/></entry></feed>'.encode()
RSS = f"<rss><channel><item><link>{ROOT}/in-rss</link></item></channel></rss>".encode()
GALLERY = {f"/list/{n}": answer(f"<p>{BIRDS} list</p>{link(f'/item/{n}')}".encode()) for n in (1, 2)}
CANONICAL = f'<title>C</title><link rel=canonical href="{ROOT}/canonical">'

FINDING = {
    "links in HTML: `a`, `area`, `iframe`, `noscript`, `base`, odd spellings, IDN": Feature(
        {"/links": html("/links", LINKS, "<meta charset=utf-8><base href=/base/>")}
        | pages("/base/in-base", "/area", "/frame", "/noscript", "/back/slash", "/newline", "/a?b=1&c=2", "/dots")
        | pages("/case", "/idn"),
        dict.fromkeys(("/base/in-base", "/area", "/frame", "/noscript", "/back/slash", "/newline"), "page")
        | dict.fromkeys(("/a?b=1&c=2", "/dots", "/case", "http://xn--bcher-kva.example/idn"), "page"),
        ("/links",),
    ),
    "links made by JavaScript: single-page apps, infinite scroll, “load more”, script redirects": Feature(
        {
            "/app": answer(SHELL),
            "/api/birds.json": answer(f'{{"html": "<p>{BIRDS} app <a href=/made>wren</a>"}}'.encode()),
        }
        | pages("/made"),
        {"/app": "page", "/made": "unknown"},
        ("/app",),
    ),
    "`onclick`, `data-href`, `__NEXT_DATA__`, JSON-LD": Feature(
        {"/scripted": html("/scripted", SCRIPT_LINKS)},
        {"/scripted": "page"}
        | dict.fromkeys(("/by-onclick", "/by-data-href", "/by-next-data", "/by-json-ld"), "unknown"),
    ),
    "declarative shadow DOM (`template shadowrootmode`)": Feature(
        {
            "/shadow": html(
                "/shadow",
                f"<div><template shadowrootmode=open>{link('/in-shadow')}</template></div>"
                f"<template>{link('/in-template')}</template>",
            )
        }
        | pages("/in-shadow"),
        {"/in-shadow": "page", "/in-template": "unknown"},
        ("/shadow",),
    ),
    "sitemaps of robots.txt, index files, `.xml.gz`": Feature(
        {
            "/maps/index.xml": answer(
                sitemap(f"{ROOT}/maps/1.xml", f"{ROOT}/maps/2.xml.gz", root="sitemapindex", entry="sitemap"),
                content_type="text/xml",
            ),
            "/maps/1.xml": answer(sitemap(f"{ROOT}/in-sitemap"), content_type="text/xml"),
            "/maps/2.xml.gz": answer(gzip.compress(sitemap(f"{ROOT}/in-gz")), content_type="application/gzip"),
        }
        | pages("/in-sitemap", "/in-gz"),
        {"/in-sitemap": "page", "/in-gz": "page"},
        (),
    ),
    "RSS and Atom feeds, linked in the head or in the text": Feature(
        {
            "/feeds": html("/feeds", link("/feed.rss"), '<link rel=alternate type="application/atom+xml" href=/feed>'),
            "/feed": answer(FEED, content_type="application/atom+xml"),
            "/feed.rss": answer(RSS, content_type="application/rss+xml"),
        }
        | pages("/in-feed", "/in-rss"),
        {"/in-feed": "page", "/in-rss": "page"},
        ("/feeds",),
    ),
    "`link rel=next` and `prev`, `a rel=next`, `Link: rel=next` header": Feature(
        {"/p1": html("/p1", link("/p3", "rel=next"), "<link rel=next href=/p2>", link='</p4>; rel="next"')}
        | pages("/p2", "/p3", "/p4"),
        dict.fromkeys(("/p2", "/p3", "/p4"), "page"),
        ("/p1",),
    ),
    "`Refresh:` header, meta refresh": Feature(
        {
            "/f1": html("/f1", refresh="5; url=/f2"),
            "/f3": html("/f3", "", '<meta http-equiv=refresh content="0;url=/f4">'),
        }
        | pages("/f2", "/f4"),
        {"/f2": "page", "/f4": "page"},
        ("/f1", "/f3"),
    ),
    "listing pages with equal text and different links": Feature(
        GALLERY | pages("/item/1", "/item/2"), {"/item/1": "page", "/item/2": "page"}, ("/list/1", "/list/2")
    ),
    "`hreflang`, in the head and in the `Link` header": Feature(
        {
            "/de": html(
                "/de", "", "<link rel=alternate hreflang=en href=/en><link rel=alternate hreflang=fr href=/fr>"
            ),
            "/it": html("/it", link="</by-header>; rel=alternate; hreflang=en-GB"),
        }
        | pages("/en", "/by-header"),
        {"/de": "page", "/en": "page", "/fr": "unknown", "/by-header": "page"},
        ("/de", "/it"),
    ),
    "`amphtml`": Feature(
        {"/many": html("/many", "", "<link rel=amphtml href=/amp>")}, {"/many": "page", "/amp": "unknown"}
    ),
    "canonical URL": Feature(
        {f"/c?{query}": html("/c", f"<p>{query}", CANONICAL) for query in ("print=1", "ref=abc")},
        {"/c?print=1": "page", "/c?ref=abc": "alias", "/canonical": "unknown"},
    ),
    "tracking parameters (`utm_…`, `fbclid`)": Feature(
        pages("/tracked"),
        {"/tracked": "page", "/tracked?utm_source=x": "unknown"},
        ("/tracked?utm_source=x&fbclid=y",),
    ),
    "hidden links (`display:none`, `visibility:hidden`, `hidden`)": Feature(
        {"/hides": html("/hides", link("/honeypot", 'style="display: none"') + link("/hidden", "hidden"))},
        {"/honeypot": "unknown", "/hidden": "unknown"},
    ),
    "`nofollow` on links and pages, in meta and `X-Robots-Tag`": Feature(
        {
            "/nf1": html("/nf1", link("/not-1", "rel=nofollow") + link("/ugc", "rel=ugc")),
            "/nf2": html("/nf2", link("/not-2"), "<meta name=robots content=nofollow>"),
            "/nf3": html("/nf3", link("/not-3"), x_robots_tag="nofollow"),
        }
        | pages("/ugc"),
        dict.fromkeys(("/not-1", "/not-2", "/not-3"), "unknown") | {"/ugc": "page", "/nf2": "page robots:nofollow"},
        ("/nf1", "/nf2", "/nf3"),
    ),
    "session ids (`jsessionid`, `PHPSESSID`, `sid` with 32 hexadecimal digits)": Feature(
        pages("/topic?t=1"),
        {"/topic?t=1": "page", f"/topic?t=1&sid={'0a' * 16}": "unknown"},
        (f"/topic?t=1&sid={'0a' * 16}", "/topic;jsessionid=7?t=1&PHPSESSID=8"),
    ),
    "calendars, other session ids, endless paths, query explosions": Feature(
        {},
        {"/calendar/2199-01": "trap: calendar", "/x/x/x/x/x/x/": "trap: repeating path"},
        ("/calendar/2199-01", "/x/x/x/x/x/x/"),
    ),
    "edit, history and special pages of wikis, reply forms of blogs and forums": Feature(
        pages("/index.php?title=Wren", "/wiki/Special:AllPages"),
        {
            "/index.php?title=Wren": "page",
            "/index.php?title=Wren&action=edit": "trap: wiki tool",
            "/wiki/Special:AllPages": "page",
            "/wiki/Special:WhatLinksHere/Wren": "trap: wiki tool",
            "/post?replytocom=7": "trap: wiki tool",
            "/posting.php?mode=reply&t=7": "trap: forum tool",
        },
        (
            *("/index.php?title=Wren", "/index.php?title=Wren&action=edit", "/wiki/Special:AllPages"),
            *("/wiki/Special:WhatLinksHere/Wren", "/post?replytocom=7", "/posting.php?mode=reply&t=7"),
        ),
    ),
    "URLs out of [scope](configuration.md#scope)": Feature(
        {}, {"/denied/x": "out of scope: scope.deny /denied/*"}, ("/denied/x",)
    ),
}

GETTING = {
    "robots.txt: wildcards, `$`, own group, byte order mark, redirects, 4xx, 5xx, 429, `Crawl-delay`": Feature(
        pages("/private-1.html?x", "/yes", "/no", "/html", "/gone"),
        {
            "/private-1.html": "robots.txt disallows it",
            "/private-1.html?x": "page",
            "http://own.example/no": "robots.txt disallows it",
            "http://own.example/yes": "page",
            "http://mark.example/no": "robots.txt disallows it",
            "http://html.example/html": "page",
            "http://gone.example/gone": "page",
            "http://down.example/yes": "queued",
        },
        (
            *("/private-1.html", "/private-1.html?x", "http://own.example/no", "http://own.example/yes"),
            *("http://mark.example/no", "http://html.example/html", "http://gone.example/gone"),
            "http://down.example/yes",
        ),
    ),
    "redirects 301–308, chains, loops": Feature(
        {
            **{f"/r{n}": moved(f"/to-{n}", f"{n} Moved") for n in (301, 302, 303, 307, 308)},
            **pages(*(f"/to-{n}" for n in (302, 303, 307, 308))),
            "/to-301": moved("/chained"),
            **pages("/chained"),
            "/loop-a": moved("/loop-b"),
            "/loop-b": moved("/loop-a"),
        },
        {f"/to-{n}": "page" for n in (302, 303, 307, 308)} | {"/chained": "page", "/loop-a": "redirects to"},
        (*(f"/r{n}" for n in (301, 302, 303, 307, 308)), "/loop-a"),
    ),
    "cookies": Feature({"/cookie": with_cookie("/cookie", "/cookie")}, {"/cookie": "page"}),
    "consent redirects": Feature(
        {"/agreed": with_cookie("/agreed", "/agree"), "/agree": moved("/agreed", set_cookie="seen=1; Path=/")},
        {"/agreed": "page"},
        ("/agreed",),
    ),
    "consent forms": Feature(
        {"/consent": answer(b"<title>Before you continue</title><form>Accept all")},
        {"/consent": "consent Before you continue"},
    ),
    "login forms, redirects to a login page": Feature(
        {
            "/login": answer(b"<h1>Sign in</h1><form><input name=p type=password></form>"),
            "/members": moved("/login"),
            "/401": answer(b"no", "401 Unauthorized"),
        },
        {"/login": "login Sign in", "/members": "redirects to", "/401": "status 401"},
    ),
    "bot challenges (Cloudflare and others), also with status 200": Feature(
        {
            "/moment": answer(b"<title>Just a moment...</title><p>Checking your browser"),
            "/cf": answer(b"no", "403 Forbidden", cf_mitigated="challenge"),
            "/cf503": answer(b"no", "503 Unavailable", cf_mitigated="challenge"),
            "/cf-body": answer(b"<script src=/cdn-cgi/challenge-platform/h/b/chl_page/v1></script>", "403 Forbidden"),
            "/anubis": answer(
                "<title>Making sure you\u2019re not a bot!</title>".encode(), content_type="text/html;charset=utf-8"
            ),
            "/waf": answer(b"", "202 Accepted", x_amzn_waf_action="challenge"),
            "/forbidden": answer(b"<p>You may not see this.", "403 Forbidden"),
            "/protected": html("/protected", '<img src="/cdn-cgi/challenge-platform/x.png">'),
        },
        {
            "/moment": "challenge Just a moment...",
            "/cf": "challenge Cloudflare, status 403",
            "http://cf.example/cf503": "challenge Cloudflare, status 503",
            "/cf-body": "challenge Cloudflare, status 403",
            "/anubis": "challenge Making sure",
            "/waf": "challenge AWS WAF",
            "/forbidden": "status 403",
            "/protected": "page",
        },
        ("/moment", "/cf", "http://cf.example/cf503", "/cf-body", "/anubis", "/waf", "/forbidden", "/protected"),
    ),
    "429 and 503 with or without `Retry-After`": Feature(
        {"/busy": answer(b"", "429 Too Many Requests", retry_after="3600"), "/down": answer(b"", "503 Unavailable")},
        {"http://busy.example/busy": "status 429", "http://late.example/down": "status 503"},
        ("http://busy.example/busy", "http://late.example/down"),
    ),
    "gzip, br, zstd, deflate, double encoding": Feature(
        sends("/gzip", gzip.compress(plain("/gzip")), "gzip")
        | sends("/br", brotli.compress(plain("/br")), "br")
        | sends("/zstd", zstandard.compress(plain("/zstd")), "zstd")
        | sends("/deflate", zlib.compress(plain("/deflate")), "deflate")
        | sends("/twice", gzip.compress(gzip.compress(plain("/twice"))), "gzip, gzip"),
        dict.fromkeys(("/gzip", "/br", "/zstd", "/deflate", "/twice"), "page"),
    ),
    "endless, slow or reset responses": Feature(
        {
            "/endless": endless(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", plain("/endless")),
            "/reset": raw(b""),
        },
        {"/endless": "page truncated:length", "/reset": "empty"},
    ),
    "redirects to private addresses and to cloud metadata (169.254.0.0/16 and others)": Feature(
        {"/metadata": moved("http://169.254.169.254/latest")},
        {"http://169.254.169.254/latest": "private-address"},
    ),
}

READING = {
    "HTML, XHTML, Markdown, plain text, responses without a content type": Feature(
        {
            "/xhtml": html("/xhtml", content_type="application/xhtml+xml"),
            "/text": answer(plain("/text"), content_type="text/plain"),
            "/markdown": answer(f"# Wrens\n\n{BIRDS} [owl](/by-markdown)".encode(), content_type="text/markdown"),
            "/untyped": html("/untyped", content_type=""),
        }
        | pages("/by-markdown"),
        dict.fromkeys(("/xhtml", "/text", "/markdown", "/untyped", "/by-markdown"), "page"),
        ("/xhtml", "/text", "/markdown", "/untyped"),
    ),
    "PDF, DOCX, EPUB, XML": Feature(
        {
            "/w.pdf": answer(
                pdf([["The wren", "The small brown bird builds a nest.", "owl"]], link=f"{ROOT}/by-pdf"),
                content_type="application/pdf",
            ),
            "/w.docx": answer(docx(), content_type=DOCX),
            "/w.epub": answer(epub(f"<h1>Nests</h1><p>{WREN} The book."), content_type="application/epub+zip"),
            "/w.xml": answer(DOCBOOK, content_type="text/xml"),
        }
        | pages("/by-pdf"),
        dict.fromkeys(("/w.pdf", "/w.docx", "/w.epub", "/w.xml", "/by-pdf"), "page"),
        ("/w.pdf", "/w.docx", "/w.epub", "/w.xml"),
    ),
    "other media types: JSON, images, audio, video": Feature(
        {
            "/json": answer(b'{"wren": 1}', content_type="application/json"),
            "/picture": answer(b"GIF89a", content_type="image/gif"),
            "/binary": html("/binary", content_type="application/octet-stream"),
        },
        dict.fromkeys(("/json", "/picture", "/binary"), "content-type"),
    ),
    "pages longer than `fetch.max_bytes`": Feature(
        {"/long": answer(plain("/long") + b"<p>wren" * MAX_BYTES)}, {"/long": "page truncated:length"}
    ),
    "responses that end early or are too slow": Feature(
        {
            "/early": raw(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 90000\r\n\r\n" + plain("/early") * 20
            )
        },
        {"/early": "page truncated:disconnect"},
    ),
    "damaged gzip, br, zstd": Feature(
        sends("/damaged", DAMAGED, "gzip"),
        {"/damaged": "page truncated:unspecified"},
    ),
    "character sets: header, meta, byte order mark, detection": Feature(
        {
            f"/set/{name}": answer(f"{before}<title>{text}</title><p>{text} {name}".encode(name), content_type=kind)
            for name, text, before, kind in (
                ("shift_jis", "\u9ce5", "", "text/html; charset=shift_jis"),
                ("euc-jp", "\u5de3", "<meta charset=euc-jp>", "text/html"),
                ("gbk", "\u9e1f\u5de2", "<meta charset=gbk>", "text/html"),
                ("cp1252", "V\u00f6gel", "", "text/html; charset=windows-1252"),
                ("utf-16", "\u043f\u0442\u0438\u0446\u0430", "", "text/html"),
            )
        },
        {
            "/set/shift_jis": "page \u9ce5",
            "/set/euc-jp": "page \u5de3",
            "/set/gbk": "page \u9e1f\u5de2",
            "/set/cp1252": "page V\u00f6gel",
            "/set/utf-16": "page \u043f\u0442\u0438\u0446\u0430",
        },
    ),
    "soft 404, empty pages, deep nesting": Feature(
        {
            "/soft": answer(b"<title>404 Not Found</title><p>The page was not found."),
            "/empty": answer(b""),
            "/deep": answer(b"<div>" * 5_000 + plain("/deep")),
        },
        {"/soft": "soft-404", "/empty": "page", "/deep": "page"},
    ),
    "`noindex`, `noarchive`, AI opt-outs, licences": Feature(
        {
            "/noindex": html("/noindex", "", "<meta name=opilio content=noindex>"),
            "/other-bot": html("/other-bot", x_robots_tag="otherbot: noindex"),
            "/noai": html("/noai", "", '<meta name=robots content="noai, noarchive">'),
            "/tdm": html("/tdm", tdm_reservation="1"),
            "/signal": html("/signal", content_signal="ai-train=no"),
            "/usage": html("/usage", content_usage="train-ai=n"),
            "/licence": html("/licence", "", f"<link rel=license href={ROOT}/cc-by>"),
            "/licence-a": html("/licence-a", "<a rel=license href=/cc-by-sa>CC</a>"),
            "/licence-ld": html(
                "/licence-ld", '<script type="application/ld+json">{"@graph": [{"license": "CC BY 4.0"}]}</script>'
            ),
        },
        {
            "/noindex": "page noindex robots:noindex",
            "/other-bot": "page",
            "/noai": "page robots:noai,noarchive",
            "/tdm": "page tdm_reserved",
            "/signal": "page content_signal",
            "/usage": "page content_usage",
            "/licence": f"page licence:{ROOT}/cc-by",
            "/licence-a": f"page licence:{ROOT}/cc-by-sa",
            "/licence-ld": "page licence:CC BY 4.0",
        },
    ),
    "cookie banners, dialogs, navigation": Feature(
        {
            "/banner": html(
                "/banner", "<div role=dialog class=cookie-consent>We value your privacy: accept all biscuits</div>"
            )
        },
        {"/banner": "page"},
    ),
}

FEATURES: dict[str, Feature] = {**FINDING, **GETTING, **READING}
