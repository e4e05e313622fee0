"""robots.txt by RFC 9309, its awkward cases, and the directives of pages (S1-03, S1-07)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import Failure, FetchResult
from opilio.engine.politeness.robots import CACHE_TTL_S, RobotsRules, rules_from_response

NOW = 1_000_000.0
SITE = "https://a.example"

# RFC 9309, 5.1 and 5.2, with our token in the place of the examples' crawlers.
RFC_SIMPLE = """User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: opilio
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: quxbot
Disallow: /

EOF"""
RFC_LONGEST = "User-Agent: opilio\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"


def rules(text: str | bytes, agent: str = "opilio") -> RobotsRules:
    body = text if isinstance(text, bytes) else text.encode()
    return rules_from_response(FetchResult(url=f"{SITE}/robots.txt", status=200, body=body), agent, NOW)


def allowed(text: str | bytes, path: str) -> bool:
    return rules(text).allows(SITE + path)


ALL = "User-agent: *\n"
OURS = "User-agent: opilio\n"
OTHER = "User-agent: b\n"
CASES = [
    ("rfc: own group forbids all", RFC_SIMPLE, "/", False),
    ("rfc: own group allows a page", RFC_SIMPLE, "/example/page.html", True),
    ("rfc: everybody's group is not ours", RFC_SIMPLE, "/publications/", False),
    ("rfc: longest match forbids", RFC_LONGEST, "/example/page/disallowed.gif", False),
    ("rfc: longest match allows", RFC_LONGEST, "/example/page/", True),
    ("no group applies", "User-agent: otherbot\nDisallow: /\n", "/x", True),
    ("empty file", "", "/x", True),
    ("empty rule", ALL + "Disallow:\n", "/x", True),
    ("byte order mark", b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n", "/x", False),
    ("agent in any case", "uSeR-aGeNt: OPILIO\nDisallow: /x", "/x", False),
    ("agent with version", "User-agent: Opilio/1.0\nDisallow: /x", "/x", False),
    ("agent is a prefix of ours", "User-agent: opi\nDisallow: /x", "/x", True),
    ("our token is a part of it", "User-agent: opilio-images\nDisallow: /x", "/x", True),
    ("own groups are merged", OURS + "Disallow: /x\n" + OTHER + "Allow: /\n" + OURS + "Disallow: /y", "/y", False),
    ("several agents share a group", "User-agent: b\nUser-agent: opilio\nUser-agent: c\nDisallow: /x", "/x", False),
    ("a rule ends the list of agents", "User-agent: opilio\nDisallow: /y\nUser-agent: b\nDisallow: /x", "/x", True),
    ("sitemap does not end a group", OURS + "Sitemap: http://a.example/s\n" + OTHER + "Disallow: /x", "/x", False),
    ("unknown line does not end a group", OURS + "Colour: red\nwhat\n" + OTHER + "Disallow: /x", "/x", False),
    ("carriage returns alone", "User-agent: *\rDisallow: /x\r", "/x", False),
    ("carriage return and line feed", "User-agent: *\r\nDisallow: /x\r\n", "/x", False),
    ("comments", ALL + "Disallow: /x # because\n#Disallow: /y\n", "/x", False),
    ("comment is no rule", ALL + "Disallow: /x # because\n#Disallow: /y\n", "/y", True),
    ("wildcard inside", ALL + "Disallow: /a/*/c\n", "/a/b/c/d", False),
    ("wildcard needs its end", ALL + "Disallow: /a/*/c\n", "/a/b/d", True),
    ("dollar ends", ALL + "Disallow: /*.php$\n", "/a.php", False),
    ("dollar is the end", ALL + "Disallow: /*.php$\n", "/a.php?b", True),
    ("allow wins a tie", ALL + "Disallow: /x\nAllow: /x\n", "/x", True),
    ("longer allow wins", ALL + "Disallow: /x\nAllow: /x/y\n", "/x/y", True),
    ("longer disallow wins", ALL + "Allow: /x\nDisallow: /x/y\n", "/x/y", False),
    ("order does not matter", ALL + "Allow: /x/y\nDisallow: /x\n", "/x/y", True),
    ("path case matters", ALL + "Disallow: /X\n", "/x", True),
    ("encoded rule", ALL + "Disallow: /a%3cd.html\n", "/a%3Cd.html", False),
    ("raw rule in another script", ALL + "Disallow: /vögel\n", "/v%C3%B6gel", False),
    ("unreserved characters need no escape", ALL + "Disallow: /%7Ejoe/\n", "/~joe/", False),
    ("query is matched", ALL + "Disallow: /*?print=\n", "/a?print=1", False),
    ("slash in a query", ALL + "Disallow: /in?to=http%3A%2F%2f\n", "/in?to=http://b.example", False),
    ("slash in a path is none when encoded", ALL + "Disallow: /a%2Fb\n", "/a/b", True),
    ("robots.txt itself is free", ALL + "Disallow: /\n", "/robots.txt", True),
    ("space before the colon", "User-agent : *\nDisallow : /x\n", "/x", False),
    ("no colon at all", "User-agent *\nDisallow /x\n", "/x", False),
    ("misspelt", ALL + "Dissallow: /x\n", "/x", False),
    ("rule before any agent", "Disallow: /x\nUser-agent: b\nDisallow: /\n", "/x", True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_rules_allow_by_rfc_9309(text: str | bytes, path: str, expected: bool) -> None:
    assert allowed(text, path) is expected


def answer(status: int = 0, failure: str = "", retry_after_s: float = 0.0) -> FetchResult:
    trouble = Failure(failure) if failure else None
    return FetchResult(url="", status=status, retry_after_s=retry_after_s, failure=trouble)


@pytest.mark.parametrize("status", [204, 301, 400, 401, 403, 404, 410])
def test_everything_is_allowed_when_there_is_no_file(status: int) -> None:
    found = rules_from_response(answer(status), "opilio", NOW)
    assert found.allows(f"{SITE}/x") and not found.unreachable
    assert found.expires_at == NOW + CACHE_TTL_S


def test_everything_is_allowed_when_redirects_do_not_end() -> None:
    assert rules_from_response(answer(302, "redirect-loop"), "opilio", NOW).allows(f"{SITE}/x")


@pytest.mark.parametrize("trouble", [answer(500), answer(503), answer(429), answer(0, "dns"), answer(200, "timeout")])
def test_nothing_is_allowed_when_the_file_is_unreachable(trouble: FetchResult) -> None:
    found = rules_from_response(trouble, "opilio", NOW)
    assert found.unreachable and not found.allows(f"{SITE}/x")
    assert NOW < found.expires_at < NOW + CACHE_TTL_S


def test_waiting_grows_when_the_file_stays_unreachable() -> None:
    found, waits = None, []
    for _ in range(12):
        found = rules_from_response(answer(500), "opilio", NOW, found)
        waits.append(found.expires_at - NOW)
    assert waits == sorted(waits) and waits[0] == 300.0 and waits[-1] == CACHE_TTL_S


def test_waiting_respects_retry_after() -> None:
    assert rules_from_response(answer(503, retry_after_s=4000.0), "opilio", NOW).expires_at == NOW + 4000.0


def test_old_rules_stand_in_when_the_file_becomes_unreachable() -> None:
    old = rules(ALL + "Disallow: /x")
    later = rules_from_response(answer(500), "opilio", NOW + CACHE_TTL_S, old)
    assert (later.allows(f"{SITE}/y"), later.allows(f"{SITE}/x"), later.failures) == (True, False, 1)
    assert rules_from_response(answer(500), "opilio", NOW + 40 * CACHE_TTL_S, later).unreachable


def test_only_the_first_500_kib_are_read() -> None:
    padding = b"#" + b"x" * (500 << 10) + b"\n"
    assert allowed(padding + b"User-agent: *\nDisallow: /\n", "/x")
    assert not allowed(b"User-agent: *\nDisallow: /x\n" + padding, "/x")


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("User-agent: opilio\nCrawl-delay: 2.5\n\nUser-agent: *\nCrawl-delay: 9", 2.5),
        ("User-agent: opilio\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 9", 9.0),
        ("User-agent: b\nCrawl-delay: 9", 0.0),
        (ALL + "Crawl-delay: soon", 0.0),
        (ALL + "Crawl-delay: -3", 0.0),
        (ALL + "Crawl-delay: inf", 0.0),
    ],
)
def test_crawl_delay_is_our_own_first(text: str, delay_s: float) -> None:
    assert rules(text).delay_s == delay_s


def test_sitemaps_are_listed_in_every_group() -> None:
    text = "Sitemap: https://a.example/1.xml\nUser-agent: b\nDisallow: /\nSITEMAP:https://a.example/2.xml\nSitemap:\n"
    assert rules(text).sitemaps == ("https://a.example/1.xml", "https://a.example/2.xml")


def test_rules_survive_a_restart() -> None:
    before = rules(RFC_SIMPLE)
    after = msgspec.msgpack.decode(msgspec.msgpack.encode(before), type=RobotsRules)
    assert after == before and not after.allows(f"{SITE}/x") and after.allows(f"{SITE}/example/page.html")


def test_only_groups_that_apply_are_kept() -> None:
    others = "".join(f"User-agent: bot{i}\nDisallow: /\n" for i in range(50)).replace("bot", "other")
    assert "disallow: /x" in rules(others + ALL + "Disallow: /x").text
    assert rules(others).text.count("disallow") == 0


@given(st.binary(max_size=400), st.text(max_size=40))
def test_any_bytes_give_rules(body: bytes, path: str) -> None:
    assert rules(body).allows(f"{SITE}/{path}") in (True, False)
