"""What owners allow: signals of pages and hosts in a crawl, over real sockets."""

import json
import re
from pathlib import Path

import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, page, robots, rows, served, settings_for, stored, word
from opilio.core.records import FetchResult
from opilio.engine.politeness.host_signals import TDMREP_PATH, HostSignals, TdmRule, parse_tdmrep
from opilio.engine.politeness.robots import rules_from_response
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.pages import PageTable
from opilio.store.page_selection import PageFilter

ROOT, OTHER = "http://a.example/", "http://b.example/"
TDMREP = [{"location": "/data/*", "tdm-reservation": 1, "tdm-policy": f"{OTHER}policy"}, {"location": "/"}]
NO_AI = '<meta name="robots" content="noai"><link rel="license" href="/licence">'
WEB = {
    ROOT: page(BIRDS, [f"{ROOT}plain", f"{ROOT}noai", f"{ROOT}art/x", OTHER, f"{OTHER}data/x"]),
    f"{ROOT}robots.txt": robots(
        "User-agent: *\nContent-Signal: search=yes, ai-input=yes\nContent-Usage: /art/ train-ai=n\nAllow: /\n"
        "License: http://a.example/rsl.xml\n"
    ),
    f"{ROOT}plain": page(f"{BIRDS} {word(1)}"),
    f"{ROOT}noai": page(f"{BIRDS} {word(2)}", head=NO_AI),
    f"{ROOT}art/x": page(f"{BIRDS} {word(3)}"),
    OTHER: page(f"{BIRDS} {word(4)}"),
    f"{OTHER}data/x": page(f"{BIRDS} {word(5)}"),
    f"{OTHER}{TDMREP_PATH[1:]}": RecordedResponse(
        200, (("Content-Type", "application/json"),), json.dumps(TDMREP).encode()
    ),
}


# The rows of the table in docs/signals.md, and the tests that show what it states.
ROWS = {
    "`noindex`, `none`": ("manage/test_manage_markdown.py", "test_pages_that_ask_not_to_be_indexed_are_left_out"),
    "`unavailable_after`": ("parse/test_parse_directives.py", "test_directives_are_read_for_our_agent"),
    "`nofollow`, `none`": ("engine/test_engine_politeness.py", "test_nofollow_of_pages_is_respected"),
    "`noarchive`, `nosnippet`": ("parse/test_parse_signals.py", "test_signals_deny_purposes"),
    "`noai`, `noimageai`, `noml`": ("parse/test_parse_signals.py", "test_signals_deny_purposes"),
    "`Content-Signal: search=no, ai-train=no`": ("engine/test_engine_signals.py", "test_signals_of_robots_txt"),
    "`Content-Usage: train-ai=n` (IETF aipref, a draft)": (
        "engine/test_engine_signals.py",
        "test_signals_of_robots_txt",
    ),
    "`TDM-Reservation: 1` (TDMRep)": ("parse/test_parse_signals.py", "test_signals_deny_purposes"),
    "`/.well-known/tdmrep.json` (TDMRep)": (
        "engine/test_engine_signals.py",
        "test_heeded_opt_outs_are_not_fetched_or_not_stored",
    ),
    '`Link: <…>; rel="license"; type="application/rsl+xml"`, `License:` (RSL)': (
        "parse/test_parse_signals.py",
        "test_signals_are_recorded_as_stated",
    ),
    "licence of the page": ("engine/test_engine_live_web.py", "test_feature_is_handled_as_documented"),
    "`ai.txt`, `llms.txt`": (
        "engine/test_engine_signals.py",
        "test_signals_of_page_and_host_are_recorded_and_filter_exports",
    ),
}


def test_every_row_of_the_table_has_a_test() -> None:
    tests = Path(__file__).parents[1]
    table = (tests.parent / "docs" / "signals.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)) - {"signal"}
    assert documented == set(ROWS)
    for file, name in ROWS.values():
        assert f"def {name}(" in (tests / file).read_text(encoding="utf-8"), name


def test_signals_of_page_and_host_are_recorded_and_filter_exports(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    asked = {entry.url.rpartition("/")[2] for entry in server.log}
    assert asked.isdisjoint({"tdmrep.json", "ai.txt", "llms.txt"})
    signals = {p.url: p.signals for p in PageTable(tmp_path / "c", PageFilter())}
    host = {"search": True, "ai-input": True}
    assert signals[f"{ROOT}plain"].content_signal == host
    assert signals[f"{ROOT}plain"].rsl == f"{ROOT}rsl.xml"
    assert (signals[f"{ROOT}noai"].robots, signals[f"{ROOT}noai"].licence) == (("noai",), f"{ROOT}licence")
    assert signals[f"{ROOT}art/x"].content_usage == {"train-ai": False}
    assert rows(tmp_path / "c", "SELECT signals FROM page WHERE url = ?", OTHER) == [("",)]
    kept = {p.url for p in PageTable(tmp_path / "c", PageFilter(allow=("ai-train",)))}
    assert kept == {ROOT, f"{ROOT}plain", OTHER, f"{OTHER}data/x"}


def test_heeded_opt_outs_are_not_fetched_or_not_stored(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], politeness={"heed": ["ai-train"], "delay_s": 0}))
    assert set(stored(tmp_path / "c")) == {ROOT, f"{ROOT}plain", OTHER}
    asked = {entry.url for entry in server.log}
    assert asked.isdisjoint({f"{ROOT}art/x", f"{OTHER}data/x"})
    dropped = dict(rows(tmp_path / "c", "SELECT url, reason FROM frontier_url WHERE reason LIKE 'signal%'"))
    assert dropped == {
        f"{ROOT}art/x": "signal the host denies ai-train",
        f"{OTHER}data/x": "signal the host denies ai-train",
        f"{ROOT}noai": "signal the page denies ai-train",
    }


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("User-agent: *\nContent-Signal: ai-train=no", "x", [("content-signal", "ai-train=no")]),
        ("User-agent: other\nContent-Signal: ai-train=no", "x", []),
        ("User-agent: *\nContent-Signal: ai-train=no\nUser-agent: opilio\nDisallow: /x", "y", []),
        ("User-agent: *\nContent-Usage: /a/ train-ai=n\nContent-Usage: train-ai=y", "a/b", "train-ai=n"),
        ("User-agent: *\nContent-Usage: /a/ train-ai=n\nContent-Usage: train-ai=y", "b", "train-ai=y"),
        ("User-agent: *\nContent-Usage: /*.pdf$ train-ai=n", "a.pdf", "train-ai=n"),
        ("Content-Signal: ai-train=no", "x", []),
    ],
)
def test_signals_of_robots_txt(text: str, path: str, expected: list[tuple[str, str]] | str) -> None:
    rules = rules_from_response(FetchResult(url=f"{ROOT}robots.txt", status=200, body=text.encode()), "opilio", 0.0)
    wanted = [("content-usage", expected)] if isinstance(expected, str) else expected
    assert list(rules.signals.headers(ROOT + path)) == wanted


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[{"location": 3}]', b"[" * 5_000])
def test_invalid_tdmrep_states_nothing(body: bytes) -> None:
    assert parse_tdmrep(FetchResult(url=ROOT, status=200, body=body)) == ()
    assert parse_tdmrep(FetchResult(url=ROOT, status=404, body=body)) == ()


def test_first_matching_entry_of_tdmrep_counts() -> None:
    signals = HostSignals("", "opilio", tdm_rules=[TdmRule("/a/*", False), TdmRule("/", True, "/policy")])
    assert signals.headers(f"{ROOT}a/x") == (("tdm-reservation", "0"),)
    assert signals.headers(ROOT) == (("tdm-reservation", "1"), ("tdm-policy", "/policy"))
