"""The canonical form of URLs. Every key, seen test and queue entry uses it.

Two spellings of one URL have the same canonical form, and the canonical form of a canonical form is itself. ada-url
applies the WHATWG rules (scheme and host in lower case, IDNA, default ports, dot segments, backslashes, white space).
This module also removes the fragment (S0-E7), tracking and session parameters, credentials and the host's final dot,
and normalizes percent-encoding.
"""

import re
from collections.abc import Sequence

import ada_url

from opilio.core.errors import OpilioError, UsageError

# Longer URLs are traps or data.
MAX_URL_LENGTH = 2_000

# Parameters that identify the visitor, not the resource; a final * matches any suffix.
# fmt: off
TRACKING_PARAMETERS = (
    "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "ysclid", "igshid", "igsh",
    "twclid", "ttclid", "li_fat_id", "mc_cid", "mc_eid", "_hsenc", "_hsmi", "hsctatracking", "mkt_tok",
    "oly_anon_id", "oly_enc_id", "vero_id", "wickedid", "_openstat", "s_cid", "ml_subscriber", "ml_subscriber_hash",
    "__s", "rb_clickid", "epik", "pk_campaign", "pk_kwd", "pk_source", "pk_medium", "_ga", "_gl", "cvid",
    "jsessionid", "phpsessid", "cfid", "cftoken", "oscsid", "zenid", "xtcsid",
    "utm_*", "mtm_*", "piwik_*", "matomo_*", "aspsessionid*",
)
# fmt: on
_TRACKING_NAMES = frozenset(n for n in TRACKING_PARAMETERS if not n.endswith("*"))
_TRACKING_PREFIXES = tuple(n[:-1] for n in TRACKING_PARAMETERS if n.endswith("*"))
# Session ids of forums and shops under names that others use too, so the value decides: an MD5 or longer.
_MD5_DIGITS = 32
_SESSION_PARAMETER = re.compile(r"(?:sid|s|session|session_?id|sess_?id)=[0-9a-f]{32,}", re.IGNORECASE).fullmatch

# C0 controls and space, which WHATWG strips at both ends.
_WHITESPACE = "".join(map(chr, range(0x21)))
_LINE_BREAKS = str.maketrans("", "", "\t\n\r")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Reserved characters that mean the same raw or encoded in practice: Wren_%28bird%29 equals Wren_(bird).
_UNESCAPED_IN_PATH = _UNRESERVED | frozenset("!$&'()*,:=@")
_UNESCAPED_IN_QUERY = _UNRESERVED | frozenset("!$()*,:@/?")

_SEGMENT = r"[A-Za-z0-9_~\-][A-Za-z0-9_.~\-,()!*@&=$']*"
_PATH = rf"(?:{_SEGMENT}/)*(?:{_SEGMENT})?"
_CLEAN_RELATIVE = re.compile(rf"((?:\.\./)+|/)?{_PATH}").fullmatch
# A scheme without its default port after the host.
_SCHEME_PREFIX = r"(?:http://(?![^/]*:80(?:/|$))|https://(?![^/]*:443(?:/|$)))"
_PORT = r"(?::[1-9][0-9]{0,3})?"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HOST_NAME = rf"(?:(?:[a-z0-9][a-z0-9-]*\.)+[a-z]{{2,}}|{_OCTET}(?:\.{_OCTET}){{3}})"
_CLEAN_ABSOLUTE = re.compile(rf"{_SCHEME_PREFIX}{_HOST_NAME}{_PORT}/{_PATH}").fullmatch
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):").match
_CANONICAL_HOST = re.compile(rf"{_SCHEME_PREFIX}((?:[a-z0-9._\-]+|\[[0-9a-f:.]+\]){_PORT})(?:/|$)").match
_ESCAPE_SITES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[\[\]^|{}`\\\"<> ]")
_find_escape_site, _replace_escape_sites = _ESCAPE_SITES.search, _ESCAPE_SITES.sub


def _escape_table(plain: frozenset[str]) -> dict[str, str]:
    """The canonical spelling of each percent escape, lone percent sign and character that must be encoded."""
    table = {c: f"%{ord(c):02X}" for c in '%[]^|{}`\\"<> '}
    digits = "0123456789abcdefABCDEF"
    for high in digits:
        for low in digits:
            char = chr(int(high + low, 16))
            table[f"%{high}{low}"] = char if char in plain else f"%{high}{low}".upper()
    return table


_PATH_ESCAPES = _escape_table(_UNESCAPED_IN_PATH)
_QUERY_ESCAPES = _escape_table(_UNESCAPED_IN_QUERY)


_SESSION_IN_PATH = re.compile(r";jsessionid=[^/;]*", re.IGNORECASE)


def canonicalize_url(url: str, base: str | None = None) -> str | None:
    """The canonical form of a URL, or None if it is not a valid http or https URL.

    >>> canonicalize_url("../Wren_%28bird%29?utm_source=x#song", "HTTP://Example.org:80/a/b/c.html")
    'http://example.org/a/Wren_(bird)'
    >>> canonicalize_url("mailto:wren@example.org")
    """
    if base is not None:
        return canonicalize_urls((url,), base)[0]
    url = url.partition("#")[0].strip(_WHITESPACE)
    return _canonicalize_absolute(url) if _SCHEME(url) else None


def absolute_url(href: str, base: str) -> str | None:
    """The canonical URL of a link with its fragment (S0-E7), for display; queues and fetches use it without.

    >>> absolute_url("#section1", "http://www.csepedia.com/terms/data.html")
    'http://www.csepedia.com/terms/data.html#section1'
    """
    found = canonicalize_url(href, base)
    fragment = href.partition("#")[2].strip(_WHITESPACE)
    return f"{found}#{fragment}" if found and fragment else found


def canonicalize_urls(hrefs: Sequence[str], base: str) -> list[str | None]:
    """Each href of a page, made absolute against `base` and canonical; None if it is not a valid http or https URL.

    Each spelling is processed once, because pages link the same target often.
    """
    root = canonicalize_url(base)
    if root is None:
        return [canonicalize_url(href) for href in hrefs]
    origin = root[: _path_start(root)]
    folder = root.partition("?")[0].rpartition("/")[0] + "/"
    room = MAX_URL_LENGTH - len(folder)
    known: dict[str, str | None] = {}
    # "../../" -> the folder it refers to.
    above: dict[str, str] = {}
    out: list[str | None] = []
    for href in hrefs:
        href = href.partition("#")[0]
        if href in known:
            out.append(known[href])
            continue
        clean = _CLEAN_RELATIVE(href) if 0 < len(href) < room else None
        if clean is None:
            joined = _join(href, root, origin, folder)
        elif not clean[1]:
            joined = folder + href
        elif clean[1] == "/":
            joined = origin + href
        else:
            up = clean[1]
            if up not in above:
                above[up] = _ancestor_folder(folder, origin, len(up) // 3)
            joined = above[up] + href[len(up) :]
        known[href] = joined
        out.append(joined)
    return out


def require_url(url: str, option: str = "", error: type[OpilioError] = UsageError) -> str:
    """The canonical form of a URL that a user gave; raises `error` if it is not an http or https URL."""
    found = canonicalize_url(url) if "://" in url else None
    if found is None:
        source = f"{option} '{url[:200]}'".strip()
        raise error(f"{source}: not a valid http(s) URL; include the scheme, for example https://example.org/")
    return found


def host_of(url: str) -> str:
    """The host of a URL in lower case, with the port unless it is the default; empty if there is no host.

    >>> host_of("https://example.org:8080/a")
    'example.org:8080'
    """
    found = _CANONICAL_HOST(url)
    return found[1] if found else origin_of(url).partition("//")[2]


def origin_of(url: str) -> str:
    """Scheme, host and port, the scope of a robots.txt; empty for an invalid URL."""
    found = _CANONICAL_HOST(url)
    if found:
        return url[: found.end(1)]
    usable = canonicalize_url(url)
    return usable[: _path_start(usable)] if usable else ""


def _ancestor_folder(folder: str, origin: str, levels: int) -> str:
    """The folder some levels up; the parent of the root is the root (S0-29)."""
    parts = folder[len(origin) :].split("/")
    return origin + "/".join(parts[: max(1, len(parts) - 1 - levels)]) + "/"


def _join(href: str, root: str, origin: str, folder: str) -> str | None:
    """WHATWG's relative resolution by joining strings; the parser then resolves dots, encodes and lower-cases."""
    if href.startswith(("http://", "https://")):
        return _canonicalize_absolute(href)
    href = href.strip(_WHITESPACE)
    if not href.isprintable():
        href = href.translate(_LINE_BREAKS)
    scheme = _SCHEME(href)
    if scheme:
        after = href[scheme.end() :]
        same = root.startswith(scheme[1].lower() + "://")
        if not same or (after[:1] in ("/", "\\") and after[1:2] in ("/", "\\")):
            return _canonicalize_absolute(href)
        # "http:page.html" on an http page is relative (WHATWG, special relative state).
        href = after
    if not href:
        return root
    if href[0] in "/\\":
        if href[1:2] and href[1] in "/\\":
            return _canonicalize_absolute(root.partition("//")[0] + href)
        return _canonicalize_absolute(origin + href)
    return _canonicalize_absolute(root.partition("?")[0] + href if href[0] == "?" else folder + href)


def _canonicalize_absolute(url: str) -> str | None:
    if len(url) > MAX_URL_LENGTH:
        return None
    if _CLEAN_ABSOLUTE(url) and "xn--" not in url:
        return url
    try:
        parsed = ada_url.normalize_url(url)
    except ValueError:
        return None
    if not parsed.startswith(("http://", "https://")):
        return None
    start = parsed.index("/", 8)
    origin = _clean_origin(parsed[:start])
    return origin and _normalize_escapes(origin, parsed[start:])


def _clean_origin(origin: str) -> str | None:
    if "@" in origin:
        origin = origin.partition("//")[0] + "//" + origin.rpartition("@")[2]
    if ".." in origin or "//." in origin:
        # DNS has no empty labels.
        return None
    return origin.removesuffix(".").replace(".:", ":")


def _normalize_escapes(origin: str, rest: str) -> str | None:
    path, _, query = rest.partition("?")
    if _find_escape_site(path):
        path = _replace_escape_sites(lambda m: _PATH_ESCAPES[m[0]], path)
    if ";" in path:
        path = _SESSION_IN_PATH.sub("", path)
    if "/." in path:
        path = _remove_dot_segments(path)
    if query:
        if _find_escape_site(query):
            query = _replace_escape_sites(lambda m: _QUERY_ESCAPES[m[0]], query)
        query = "&".join([parameter for parameter in query.split("&") if not _identifies_visitor(parameter)])
    url = f"{origin}{path}?{query}" if query else origin + path
    return url if len(url) <= MAX_URL_LENGTH else None


def _remove_dot_segments(path: str) -> str:
    """Resolve dot segments (RFC 3986, 5.2.4): the removal of parameters leaves some behind."""
    kept: list[str] = []
    *folders, last = path.split("/")[1:]
    for segment in (*folders, last):
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if last in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _identifies_visitor(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return (
        name in _TRACKING_NAMES
        or name.startswith(_TRACKING_PREFIXES)
        or (len(parameter) > _MD5_DIGITS and _SESSION_PARAMETER(parameter) is not None)
    )


def _path_start(url: str) -> int:
    """The index at which the path of a canonical URL begins."""
    return url.index("/", url.index("//") + 2)
