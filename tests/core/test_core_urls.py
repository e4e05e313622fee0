import re

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opilio.core.urls import MAX_URL_LENGTH, absolute_url, canonicalize_url, canonicalize_urls, host_of, origin_of

BASE = "http://www.csepedia.com/terms/data.html"

pieces = st.sampled_from(
    [
        *(
            "http:",
            "https:",
            "HTTP:",
            "ftp:",
            "//",
            "/",
            "\\",
            "..",
            ".x",
            "/../",
            ".",
            "%2e",
            "?",
            "#",
            "&",
            "=",
            "utm_source=x",
            ";",
        ),
        *(
            "jsessionid=1",
            "%",
            "%7e",
            "%zz",
            "%25",
            "41",
            "é",
            "ü.de",
            "example.org",
            "Example.ORG.",
            "1.2",
            "0x7f",
            ":80",
        ),
        *(
            ":443",
            "@",
            "user:pw@",
            "[::1]",
            "a b",
            "|",
            "{x}",
            "'",
            "(",
            "%28",
            "+",
            "%2B",
            "\t",
            "\x00",
            "wren",
            "xn--",
        ),
    ]
)
hrefs = st.lists(pieces, max_size=8).map("".join) | st.text(max_size=40)


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("/page.html", "http://www.csepedia.com/page.html"),
        ("//www.csepedia.com", "http://www.csepedia.com/"),
        ("./page.html", "http://www.csepedia.com/terms/page.html"),
        ("../page.html", "http://www.csepedia.com/page.html"),
        ("#section1", "http://www.csepedia.com/terms/data.html"),
        ("page.html", "http://www.csepedia.com/terms/page.html"),
        ("?q=1", "http://www.csepedia.com/terms/data.html?q=1"),
        ("", "http://www.csepedia.com/terms/data.html"),
        ("../../x.html", "http://www.csepedia.com/x.html"),
        ("../../../", "http://www.csepedia.com/"),
    ],
)
def test_canonical_of_relative_address_s0_29_e7(href: str, expected: str) -> None:
    assert canonicalize_url(href, BASE) == expected
    assert absolute_url(href, BASE) == (f"{expected}#section1" if href == "#section1" else expected)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://Example.ORG:80", "http://example.org/"),
        ("https://example.org:443/a/../b", "https://example.org/b"),
        ("https://example.org:8080/", "https://example.org:8080/"),
        ("http://münchen.example/", "http://xn--mnchen-3ya.example/"),
        ("http://FAẞ.example/", "http://xn--fa-hia.example/"),
        ("http://ﬁ.Ⅷ.example/", "http://fi.viii.example/"),
        ("http://a\u00adb。example/", "http://ab.example/"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://example.org.:8080/a", "http://example.org:8080/a"),
        ("http://user:secret@example.org/a", "http://example.org/a"),
        ("http://example.org/a?", "http://example.org/a"),
        ("http://example.org/%7euser/%c3%a9", "http://example.org/~user/%C3%A9"),
        ("http://example.org/é b", "http://example.org/%C3%A9%20b"),
        ("http://example.org/100%", "http://example.org/100%25"),
        ("http://example.org/a%2Fb%3Fc", "http://example.org/a%2Fb%3Fc"),
        ("http://example.org/?q=a%26b%2Bc&x=[1]", "http://example.org/?q=a%26b%2Bc&x=%5B1%5D"),
        ("http://example.org/a|b", "http://example.org/a%7Cb"),
        ("http://example.org/?utm_source=x&id=3&fbclid=y", "http://example.org/?id=3"),
        ("http://example.org/?UTM_Medium=x#top", "http://example.org/"),
        ("http://example.org/?utm%5Fsource=x", "http://example.org/"),
        ("http://example.org/a;jsessionid=0A1B?x=1", "http://example.org/a?x=1"),
        (f"http://example.org/t.php?t=7&sid={'0aF9' * 8}", "http://example.org/t.php?t=7"),
        (f"http://example.org/t.php?sid={'0aF9' * 7}", f"http://example.org/t.php?sid={'0aF9' * 7}"),
        (f"http://example.org/t.php?side={'0aF9' * 8}", f"http://example.org/t.php?side={'0aF9' * 8}"),
        ("http://example.org/shop?id=1&osCsid=8k2j", "http://example.org/shop?id=1"),
        ("  http://example.org/\na\tb ", "http://example.org/ab"),
        ("http:\\\\example.org\\a", "http://example.org/a"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[0:0::1]:80/", "http://[::1]/"),
    ],
)
def test_canonical_of_absolute_address(url: str, expected: str) -> None:
    assert canonicalize_url(url) == expected
    assert canonicalize_url(url, BASE) == expected


@pytest.mark.parametrize(
    "url",
    [
        *(
            "mailto:a@example.org",
            "javascript:void(0)",
            "ftp://example.org/",
            "data:text/html,x",
            "tel:1",
            "about:blank",
        ),
        *("http://", "http://a..b/", "http://.example.org/", "http://exa mple.org/", "http://example.org:99999/"),
        *(
            "http://example.org/\ud800",
            "http://example.org/" + "a" * MAX_URL_LENGTH,
            "http://example.org/" + "é" * 1000,
        ),
    ],
)
def test_canonical_is_none_when_unusable(url: str) -> None:
    assert canonicalize_url(url) is None
    assert canonicalize_url(url, BASE) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Wren_%28bird%29.htm", "Wren_(bird).htm"),
        ("Caf%C3%A9", "Café"),
        ("%57ren", "Wren"),
        ("AT%26T", "AT&T"),
        ("O%27Neill,_Eugene", "O'Neill%2C_Eugene"),
        ("a%7cb", "a|b"),
        ("?t=a%2fb%3Ac", "?t=a/b:c"),
        ("?t='x'", "?t=%27x%27"),
    ],
)
def test_canonical_is_equal_for_encoded_and_plain_spelling(one: str, other: str) -> None:
    assert canonicalize_url(one, BASE) == canonicalize_url(other, BASE) is not None


def test_canonical_without_base_is_none_for_relative_address() -> None:
    assert canonicalize_url("page.html") is None
    assert canonicalize_urls(["page.html", "http://example.org"], "no base") == [None, "http://example.org/"]


def test_canonical_of_scheme_without_slashes_is_relative_on_same_scheme() -> None:
    assert canonicalize_url("http:page.html", BASE) == "http://www.csepedia.com/terms/page.html"
    assert canonicalize_url("https:example.org", BASE) == "https://example.org/"


@given(hrefs)
@example("http://a/.;jsessionid=1/b")
@example("http://0x7f..")
@example("http://a/b/.x/../c")
def test_canonical_is_idempotent_for_any_text(href: str) -> None:
    once = canonicalize_url(href, BASE)
    if once is not None:
        assert canonicalize_url(once) == once
        assert canonicalize_url(once, BASE) == once
        assert len(once) <= MAX_URL_LENGTH
        assert once.isascii()


@given(
    hrefs, st.sampled_from([BASE, "https://example.org/a/b/?q=/x/", "http://example.org:8080", "https://[::1]/a/b/c"])
)
def test_canonical_agrees_with_whatwg_join_for_any_text(href: str, base: str) -> None:
    """The same reference, resolved by the WHATWG parser instead of joined as text, has the same canonical form.

    Only white space before a fragment differs: we drop it as we drop it at the end.
    """
    href = re.sub(r"[\x00-\x20]+#", "#", href)
    try:
        expected = canonicalize_url(ada_url.join_url(base, href))
    except ValueError:
        expected = None
    assert canonicalize_url(href, base) == expected


@given(st.lists(hrefs, max_size=6))
def test_canonical_all_equals_one_by_one(many: list[str]) -> None:
    assert canonicalize_urls(many, BASE) == [canonicalize_url(href, BASE) for href in many]


@pytest.mark.parametrize(
    ("url", "host", "origin"),
    [
        ("http://example.org/a", "example.org", "http://example.org"),
        ("https://example.org:8080/", "example.org:8080", "https://example.org:8080"),
        ("http://[::1]:81/", "[::1]:81", "http://[::1]:81"),
        ("HTTP://EXAMPLE.org:80", "example.org", "http://example.org"),
        ("http://user@example.org/", "example.org", "http://example.org"),
        ("mailto:x", "", ""),
    ],
)
def test_host_and_origin_of_address(url: str, host: str, origin: str) -> None:
    assert (host_of(url), origin_of(url)) == (host, origin)


octets = st.sampled_from(["0", "1", "9", "10", "99", "100", "199", "249", "255", "256", "01", "x"])
ports = st.sampled_from(["", ":80", ":443", ":8080", ":1", ":0", ":080", ":9999", ":65536", ":"])


schemes, paths = st.sampled_from(["http", "https"]), st.sampled_from(["", "/", "/a"])


@given(schemes, st.lists(octets, min_size=1, max_size=5), ports, paths)
def test_addresses_and_ports_are_as_the_url_parser_has_them(
    scheme: str, labels: list[str], port: str, path: str
) -> None:
    """What is taken as canonical without being parsed is what parsing gives."""
    url = f"{scheme}://{'.'.join(labels)}{port}{path}"
    try:
        parsed = ada_url.normalize_url(url)
    except ValueError:
        assert canonicalize_url(url) is None
    else:
        assert canonicalize_url(url) == parsed
        assert (origin_of(parsed), host_of(parsed)) == (parsed.rpartition("/")[0], parsed.split("/")[2])
