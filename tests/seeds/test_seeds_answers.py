"""Whatever a server sends, no engine raises: it finds addresses, or says what is wrong."""

import asyncio
import gzip
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.clock import VirtualClock
from opilio.core.records import EngineAnswer, EngineHit, FetchResult
from opilio.core.registry import SEED_ENGINES, plugin_names
from opilio.engine.wiring.seed_engines import build_source, complete_engine
from opilio.seeds.api_client import MemoryQuota, quota_reset_s
from opilio.seeds.url_lists import parse_lines

CONTROL = set(map(chr, range(32)))
KINDS = sorted(set(plugin_names(SEED_ENGINES)) - {"file", "collection"})
OPTIONS: dict[str, dict[str, Any]] = {
    "searxng": {"url": "https://s.example/"},
    "common-crawl": {"patterns": ["*.example"]},
    "sitemap": {"urls": ["https://s.example/sitemap.xml"]},
}
# Names that engines look at, so that fuzzing gets past the first look.
# fmt: off
NAMES = st.sampled_from([
    "web", "results", "url", "query", "more_results_available", "items", "link", "queries", "nextPage", "data",
    "search", "response", "status", "head", "continue", "pages", "extlinks", "*", "title", "error", "code", "info",
    "engines", "positions", "unresponsive_engines", "cdx-api", "name", "enabled", "categories", "message", "errors",
])
# fmt: on
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.just("\x1b[31m\n")
    | st.just("https://a.example/x")
    | st.just("OK")
)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4))
KINDS_OF_BODY = st.sampled_from(["application/json", "text/html", "text/xml", ""])
BODIES = TREES.map(msgspec.json.encode) | st.binary(max_size=200) | st.binary(max_size=60).map(gzip.compress)
ANSWERS = st.builds(
    lambda status, body, kind, left, reset: FetchResult(
        url="",
        status=status,
        body=body,
        headers=(("Content-Type", kind), ("X-RateLimit-Remaining", left), ("X-RateLimit-Reset", reset)),
    ),
    st.sampled_from([200, 200, 200, 200, 204, 301, 400, 401, 404, 422, 429, 500, 503]),
    BODIES,
    KINDS_OF_BODY,
    st.sampled_from(["", "0", "1, 2", "x", "-1"]),
    st.sampled_from(["", "0", "9" * 400, "9" * 5000]),
)


class SameAnswer:
    """A server that always says the same."""

    def __init__(self, answer: FetchResult) -> None:
        self._answer = answer

    async def request(self, url: str, *_: object, **__: object) -> FetchResult:
        return msgspec.structs.replace(self._answer, url=url)


def asked(kind: str, answer: FetchResult) -> list[EngineAnswer]:
    tree = complete_engine("mine", {"kind": kind, "pause_s": 0.0, **OPTIONS.get(kind, {})})
    source = build_source("mine", tree, SameAnswer(answer), VirtualClock(), MemoryQuota())
    return list(asyncio.run(source.find("wrens", 10)))


@pytest.fixture(autouse=True, scope="module")
def _keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BRAVE", "KAGI", "MOJEEK", "MARGINALIA"):
            patch.setenv(f"{name}_API_KEY", "key")
        yield


@pytest.mark.parametrize("kind", KINDS)
@given(answer=ANSWERS)
def test_engine_answers_or_reports_whatever_is_sent(kind: str, answer: FetchResult) -> None:
    for found in asked(kind, answer):
        assert isinstance(found.voter, str)
        assert all(isinstance(hit, EngineHit) and isinstance(hit.url, str) and hit.url for hit in found.hits)
        assert len(found.hits) <= 10
        assert found.failure is None or found.failure.kind
        assert msgspec.msgpack.encode(found)  # today's answers are kept
        assert not CONTROL & {*found.voter, *(found.failure.detail if found.failure else "")}


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"sitemap"}))
def test_answer_that_is_nested_too_deeply_is_reported(kind: str) -> None:
    (found,) = asked(kind, FetchResult(url="", status=200, body=b"[" * 200_000))
    assert found.failure is not None
    assert (found.failure.kind, found.hits) == ("answer", ())


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"sitemap"}))
@pytest.mark.parametrize("tree", [[1, 2, 3], {}, "no", {"web": None}, {"results": {}}, {"type": "search", "data": []}])
def test_answer_of_another_shape_is_no_vote_of_nothing(kind: str, tree: object) -> None:
    (found,) = asked(kind, FetchResult(url="", status=200, body=msgspec.json.encode(tree)))
    assert found.failure is not None
    assert "unexpected format" in found.failure.detail


WRONG_PARTS = {
    "brave": {"query": {}, "web": {"results": "none"}},
    "kagi": {"data": {"search": {}}},
    "mojeek": {"response": {"status": "OK", "results": 3}},
    "marginalia": {"results": {"url": "https://a.example/"}},
    "mediawiki": {"batchcomplete": "", "query": {"search": True}},
    "searxng": {"results": {}},
}


@pytest.mark.parametrize("kind", WRONG_PARTS)
def test_list_of_results_that_is_invalid_is_reported(kind: str) -> None:
    (found,) = asked(kind, FetchResult(url="", status=200, body=msgspec.json.encode(WRONG_PARTS[kind])))
    assert found.failure is not None
    assert (found.failure.kind, found.failure.detail) == ("answer", "sent JSON in an unexpected format")


def test_line_of_an_index_that_is_nested_too_deeply_is_passed_over() -> None:
    body = b'{"url": "https://a.example/"}\n' + b"[" * 200_000
    assert parse_lines(FetchResult(url="", status=200, body=body)) == ["https://a.example/"]


@pytest.mark.parametrize(
    ("left", "reset", "wait_s"),
    [
        ("1, 1999", "1, 1419704", 0.0),
        ("0, 1999", "1, 1419704", 1.0),
        ("0, 0", "1, 1419704", 1419704.0),
        ("", "", 0.0),
        ("0", "soon", 0.0),
        ("0", "1700000060", 60.0),
        ("0", "1600000000", 0.0),
        ("0", "999999999", 2_678_400.0),
        ("0", "9" * 400, 0.0),
    ],
)
def test_used_up_allowance_of_brave_is_waited_for(left: str, reset: str, wait_s: float) -> None:
    headers = (("X-RateLimit-Remaining", left), ("X-RateLimit-Reset", reset))
    assert quota_reset_s(FetchResult(url="", status=200, headers=headers), 1_700_000_000.0) == wait_s


def test_place_that_is_invalid_is_not_believed() -> None:
    result = {"url": "https://a.example/x", "engines": ["brave\n\x1b[31m"], "positions": [10**30, -4, True]}
    tree = {"results": [result], "unresponsive_engines": [["kagi\n", "gone\x07"]]}
    found = asked("searxng", FetchResult(url="", status=200, body=msgspec.json.encode(tree)))
    assert [(a.voter, [h.rank for h in a.hits]) for a in found] == [("brave[31m", [1]), ("kagi", [])]
    assert found[1].failure is not None and found[1].failure.detail == "gone"
