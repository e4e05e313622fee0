"""What the owner of a page allows."""

import pytest

from opilio.core.records import FetchResult
from opilio.parse.extract import stored_signals
from opilio.parse.html import HtmlParser
from opilio.parse.signals import PageSignals

BOTH_AI = {"ai-input", "ai-train"}


def response(head: str = "", *headers: tuple[str, str], content_type: str = "text/html") -> FetchResult:
    body = f"<html><head>{head}</head><body><p>Text.</body></html>".encode()
    return FetchResult(
        url="http://a.example/", status=200, headers=(("Content-Type", content_type), *headers), body=body
    )


@pytest.mark.parametrize(
    ("head", "header", "denied"),
    [
        ("", ("Server", "x"), set()),
        ("<meta name=robots content='noindex'>", None, {"search"}),
        ("<meta name=robots content='NONE'>", None, {"search"}),
        ("<meta name=otherbot content='noindex'>", None, set()),
        ("", ("X-Robots-Tag", "noai, noimageai"), BOTH_AI),
        ("", ("Robots-Tag", "noai"), BOTH_AI),
        ("", ("X-Robots-Tag", "otherbot: noai"), set()),
        ("<meta name=robots content=noml>", None, BOTH_AI),
        ("<meta name=robots content=noimageai>", None, BOTH_AI),
        ("<meta name=robots content='noarchive, nosnippet'>", None, set()),
        ("", ("Content-Signal", "search=yes, ai-train=no"), {"ai-train"}),
        ("", ("Content-Signal", "search=no,ai-input=NO"), {"search", "ai-input"}),
        ("", ("Content-Signal", "ai-train=perhaps; =no, ,,"), set()),
        ("", ("Content-Usage", "train-ai=n, search=y"), {"ai-train"}),
        ("", ("Content-Usage", "bots=n"), {"search", *BOTH_AI}),
        ("", ("Content-Usage", 'train-ai="n";x=1'), {"ai-train"}),
        ("", ("TDM-Reservation", "1"), BOTH_AI),
        ("", ("TDM-Reservation", "0"), set()),
        ("<meta name=tdm-reservation content=1>", ("TDM-Reservation", "0"), BOTH_AI),
    ],
)
def test_signals_deny_purposes(head: str, header: tuple[str, str] | None, denied: set[str]) -> None:
    assert stored_signals(response(head, *([header] if header else []))).denied() == denied


def test_signals_are_recorded_as_stated() -> None:
    rsl = ("Link", '<http://a.example/rsl.xml>; rel="license"; type="application/rsl+xml"')
    robots = ("X-Robots-Tag", "noarchive, unavailable_after: 25 Jun 2026 15:00:00 PST")
    found = stored_signals(
        response("<meta name=tdm-reservation content=1><meta name=tdm-policy content='/policy'>", rsl, robots)
    )
    assert found == PageSignals(
        robots=("noarchive",),
        unavailable_after="25 Jun 2026 15:00:00 PST",
        tdm_reserved=True,
        tdm_policy="/policy",
        rsl="http://a.example/rsl.xml",
    )


@pytest.mark.parametrize("content_type", ["text/plain", "image/png"])
def test_headers_count_for_other_content(content_type: str) -> None:
    found = stored_signals(response("", ("Content-Signal", "ai-train=no"), content_type=content_type))
    assert found.denied() == {"ai-train"}


def test_the_parser_obeys_robots_tag() -> None:
    assert HtmlParser().parse(response("", ("Robots-Tag", "noindex"))).noindex
