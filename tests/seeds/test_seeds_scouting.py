"""More seeds while crawling: asked for when the frontier is dry, kept with the crawl, stopped when they are no use."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.search_doubles import SearchDouble, search_double
from checks.small_webs import (
    BIRDS,
    PATIENCE_S,
    TRAINS,
    SmallWeb,
    events,
    opilio,
    page,
    served,
    started,
    stored,
    until,
    word,
)
from opilio.core.clock import SystemClock, VirtualClock
from opilio.core.events import SeedsFound
from opilio.core.records import EngineAnswer, EngineHit, Failure, FetchResult
from opilio.core.settings import read_toml
from opilio.engine.wiring.seed_engines import complete_engine
from opilio.engine.wiring.seeding import open_seed_sources
from opilio.engine.wiring.session import CrawlSession, create_crawl, resume_crawl
from opilio.manage.verify import verify
from opilio.seeds.queries import QueryYield, candidate_queries, distinctive_words, exhaustion_reason, next_query
from opilio.topic.setup import resolve_settings

TOPIC = "wrens and other small birds"
Know = Callable[[str, int], Sequence[str]]


class KnowingSource:
    """An engine that answers by a function of the query and of how often it was asked."""

    def __init__(self, know: Know, failure: Failure | None = None, name: str = "table") -> None:
        self.name = name
        self._know = know
        self._failure = failure
        self.asked: list[str] = []

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's
        urls = self._know(query, len(self.asked))[:limit]
        self.asked.append(query)
        hits = tuple(EngineHit(url=url, rank=rank) for rank, url in enumerate(urls, 1))
        return [EngineAnswer(voter=self.name, hits=hits, failure=self._failure)]


def table(answers: Mapping[str, Sequence[str]], name: str = "table") -> KnowingSource:
    """Knows its answers by heart; to any other query it finds nothing."""
    return KnowingSource(lambda query, _: answers.get(query, ()), name=name)


def everything() -> KnowingSource:
    """Knows three new places for every query."""
    return KnowingSource(lambda _, number: [island(3 * number + i) for i in range(3)])


def failing(kind: str, detail: str, name: str = "broken") -> KnowingSource:
    return KnowingSource(lambda *_: (), Failure(kind, detail), name)


def island(number: int) -> str:
    """A page without links: only an engine leads to it."""
    return f"http://i{number}.example/"


def islands(count: int, text: str = BIRDS) -> dict[str, FetchResult]:
    return {island(n): html(island(n), f"<title>Page {word(n)}</title><p>{text} {word(n)}</p>") for n in range(count)}


def tree(**seeds: Any) -> dict[str, Any]:
    keywords = ["wren", "bird", "nest", "song"]
    made = plain_tree([island(0)], strategy="best-first", engine={"connections": 1}, topic={"keywords": keywords})
    return {**made, "seeds": {**made["seeds"], **seeds}}


def run(
    folder: Path, web: Mapping[str, FetchResult], *sources: KnowingSource, **seeds: Any
) -> tuple[str, list[SeedsFound], list[str]]:
    fetcher = PageFetcher(web, clock := VirtualClock())
    reason, result = run_engine(folder, tree(**seeds), fetcher, clock=clock, sources=sources)
    return reason, [event for event in result if isinstance(event, SeedsFound)], fetcher.asked


def test_engines_are_asked_when_nothing_is_left_and_the_crawl_goes_on(tmp_path: Path) -> None:
    source = table({TOPIC: [island(0), island(1), island(2)], "wren bird nest": [island(3)]})
    reason, result, asked = run(tmp_path / "c", islands(4), source)
    assert asked == [island(n) for n in range(4)]
    assert [(event.query, event.found, event.new) for event in result[:2]] == [(TOPIC, 3, 2), ("wren bird nest", 1, 1)]
    assert result[0].voters == ("table",)
    assert reason == "nothing left to fetch; the last 3 queries brought nothing new"
    assert events(tmp_path / "c", "SeedsFound"), "it is in the journal"


def test_new_seeds_are_fetched_in_the_order_of_their_votes_s0_e12(tmp_path: Path) -> None:
    one = table({TOPIC: [island(3), island(2), island(1)]}, name="one")
    other = table({TOPIC: [island(1)]}, name="other")
    _, _, asked = run(tmp_path / "c", islands(4), one, other, queries=1)
    assert asked == [island(n) for n in (0, 1, 3, 2)]


def test_queries_end_when_their_precision_falls(tmp_path: Path) -> None:
    web = {**islands(60, TRAINS), island(0): islands(1)[island(0)]}
    source = everything()
    reason, result, _ = run(tmp_path / "c", web, source, precision=0.2)
    assert "were relevant" in reason
    assert len(result) == 2, "two pages decide nothing yet, five do"


def test_queries_go_on_while_they_pay(tmp_path: Path) -> None:
    reason, result, asked = run(tmp_path / "c", islands(60), everything(), queries=6)
    assert reason == "nothing left to fetch; all 6 queries (seeds.queries) were sent"
    assert len(result) == 6
    assert len(asked) == 18


def test_queries_take_words_of_relevant_pages(tmp_path: Path) -> None:
    text = "<title>Zaunkoenig {0}</title><p>{1} {0}</p>"
    web = {url: html(url, text.format(word(n), BIRDS)) for n, url in enumerate(islands(60))}
    source = everything()
    run(tmp_path / "c", web, source, queries=4)
    assert any(query.endswith(" zaunkoenig") for query in source.asked)


def test_no_engine_is_queried_when_queries_are_off_or_none_is_configured(tmp_path: Path) -> None:
    source = everything()
    assert run(tmp_path / "off", islands(3), source, queries=0)[0] == "nothing left to fetch"
    assert source.asked == []
    assert run(tmp_path / "none", islands(3))[0] == "nothing left to fetch"


def test_crawl_is_the_same_again_in_a_replay(tmp_path: Path) -> None:
    first, second = (run(tmp_path / name, islands(40), everything(), queries=5) for name in "ab")
    assert first == second


def test_engine_that_fails_ends_nothing_while_others_answer(tmp_path: Path) -> None:
    broken = failing("limit", "too many requests")
    source = table({TOPIC: [island(1)]})
    _, result, asked = run(tmp_path / "c", islands(2), broken, source)
    assert asked == [island(0), island(1)]
    assert result[0].problems == ("broken: too many requests (limit)",)


def test_engines_that_can_not_be_reached_are_asked_the_same_again_later(tmp_path: Path) -> None:
    broken = failing("connect", "refused")
    reason, result, _ = run(tmp_path / "c", islands(2), broken)
    assert reason == "nothing left to fetch; no engine answered"
    assert (len(result), len(broken.asked)) == (1, 1)
    well = table({TOPIC: [island(1)]})
    _, _, asked = run(tmp_path / "c", islands(2), well)
    assert well.asked[0] == TOPIC
    assert island(1) in asked


def test_resumed_crawl_asks_no_query_again(tmp_path: Path) -> None:
    first, second = everything(), everything()
    run(tmp_path / "c", islands(60), first, queries=3)
    run(tmp_path / "c", islands(60), second, queries=5)
    assert not set(first.asked) & set(second.asked)
    assert len(second.asked) == 2


def test_stop_does_not_wait_for_an_engine_and_the_next_run_asks_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    web = SmallWeb({island(n): page(f"{BIRDS} {word(n)}") for n in range(2)})
    with search_double(alpha=[island(1)]) as double, served(web) as server:
        double.faults["searxng"] = "slow"
        config = tmp_path / "c.toml"
        config.write_text(_config(server.proxy, double.engine("searxng", timeout_s=600.0)), encoding="utf-8")
        reason = asyncio.run(
            _stopped_while_asking(create_crawl(tmp_path / "c", resolve_settings(read_toml(config))), double)
        )
        assert (reason, stored(tmp_path / "c")) == ("interrupted", [island(0)])
        double.faults.clear()
        asyncio.run(_run_to_the_end(resume_crawl(tmp_path / "c", {})))
    assert stored(tmp_path / "c") == [island(0), island(1)]


async def _stopped_while_asking(crawl: CrawlSession, double: SearchDouble) -> str:
    async with crawl:
        running = asyncio.ensure_future(crawl.engine.run())
        while not double.log:
            await asyncio.sleep(0.01)
        crawl.engine.stop()
        return await asyncio.wait_for(running, PATIENCE_S)


async def _run_to_the_end(crawl: CrawlSession) -> str:
    async with crawl:
        return await crawl.engine.run()


def _config(proxy: str, engine: dict[str, Any]) -> str:
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in engine.items())
    return (
        f'strategy = "breadth"\n[topic]\nname = "{TOPIC}"\n'
        f'[seeds]\nurls = ["{island(0)}"]\n[seeds.engines.mine]\n{lines}\n'
        f'[politeness]\ndelay_s = 0.0\n[fetch]\nproxy = "{proxy}"\nretries = 0\n[engine]\nworkers = 0\n'
    )


def test_command_finds_its_way_to_an_island(tmp_path: Path) -> None:
    """A real crawl over sockets: the second query leads where no link does, and `why` names the engine."""
    web = SmallWeb({island(n): page(f"{BIRDS} {word(n)}", title=f"Nest {word(n)}") for n in range(3)})
    with search_double() as double, served(web) as server:
        double.lists |= {"alpha": [island(1)], "beta": [island(1), island(2)]}
        (tmp_path / "c.toml").write_text(_config(server.proxy, double.engine("searxng")), encoding="utf-8")
        cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = opilio("crawl", "--config", tmp_path / "c.toml", "--into", tmp_path / "c", environment=cache)
        assert done.returncode == 0, done.stderr
        why = json.loads(opilio("why", tmp_path / "c", island(2), "--json").stdout)
    assert "stopped: nothing left to fetch; " in done.stdout
    assert len(stored(tmp_path / "c")) == 3
    assert why["seed"] == {"priority": 3, "sources": "beta"}


def test_crawl_that_is_killed_while_it_asks_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    web = SmallWeb({island(n): page(f"{BIRDS} {word(n)}") for n in range(2)})
    words = ("crawl", "--config", tmp_path / "c.toml", "--into", tmp_path / "c")
    with search_double(alpha=[island(1)]) as double, served(web) as server:
        double.faults["searxng"] = "slow"
        engine = double.engine("searxng", timeout_s=600.0)
        (tmp_path / "c.toml").write_text(_config(server.proxy, engine), encoding="utf-8")
        process = started(*words)
        until(lambda: bool(double.log), process)
        process.kill()
        process.communicate()
        double.faults.clear()
        done = opilio(*words, environment=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert stored(tmp_path / "c") == [island(0), island(1)]
    assert verify(tmp_path / "c") == []


def test_key_that_is_gone_does_not_keep_a_crawl_from_going_on() -> None:
    settings = resolve_settings({"seeds": {"engines": {"brave": complete_engine("brave", {"key": "env:NO_SUCH_KEY"})}}})

    async def main() -> list[EngineAnswer]:
        async with open_seed_sources(settings, SystemClock(), lenient=True) as (source,):
            return list(await source.find("wrens", 1))

    (answer,) = asyncio.run(main())
    assert answer.failure is not None
    assert "the environment variable NO_SUCH_KEY is not set" in answer.failure.detail


def test_candidates_take_turns_between_table_and_pages() -> None:
    found = list(candidate_queries("birds", ["wren", "bird", "nest", "egg"], ["song", "plumage"]))
    assert found[:5] == ["birds", "wren bird nest", "wren bird song", "wren bird egg", "wren bird plumage"]
    assert found[5:] == ["wren nest", "wren song", "wren egg", "wren plumage"]


def test_query_is_not_asked_again_in_another_order() -> None:
    assert next_query(["wren bird", "bird song"], ["Bird, wren!"]) == "bird song"
    assert next_query(["wren bird"], ["bird wren"]) == ""


def test_telling_words_are_those_that_other_pages_lack() -> None:
    relevant = ["Wren nests - Home", "Wren songs - Home", "Wren nests in spring - Home"]
    others = ["Trains - Home", "Cars - Home", "Planes - Home"]
    assert distinctive_words(relevant, others, str.isalpha)[:2] == ["wren", "nests"]


def test_precision_is_that_of_the_last_queries() -> None:
    good, bad = QueryYield("a", 10, 9), QueryYield("b", 10, 0)
    assert exhaustion_reason([bad, good, good, good], 0.5) == ""
    assert exhaustion_reason([good, bad, bad, bad], 0.5) == "0 of 30 pages from the last queries were relevant"
    assert exhaustion_reason([QueryYield("c", 4, 0)], 0.5) == "", "too few to tell"
    assert exhaustion_reason([], 0.5) == ""
