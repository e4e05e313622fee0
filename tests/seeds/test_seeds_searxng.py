"""A real SearXNG server with three engines: votes, priorities, an engine that fails, paging, what it can't do."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.search_doubles import SearchDouble, search_double
from checks.searxng_server import searxng
from checks.small_webs import opilio
from opilio.core.clock import SystemClock
from opilio.engine.wiring.seed_engines import build_source, complete_engine
from opilio.fetch.api_client import ApiClient
from opilio.seeds.api_client import MemoryQuota
from opilio.seeds.finder import FoundSeeds, SeedRequest, find_seeds

LISTS = {"alpha": ["u1", "u2", "u3"], "beta": ["u1", "u2", "u4"], "gamma": ["u1", "u5"], "broken": ["u1"]}


@pytest.fixture(scope="module")
def double() -> Iterator[SearchDouble]:
    with search_double() as running:
        yield running


@pytest.fixture(scope="module")
def server(double: SearchDouble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with searxng(tmp_path_factory.mktemp("searxng"), double) as url:
        yield url


@pytest.fixture(autouse=True)
def lists(double: SearchDouble) -> None:
    double.lists = {name: [f"https://e.example/{path}" for path in paths] for name, paths in LISTS.items()}
    double.faults = {}


def found(url: str, request: SeedRequest, **options: object) -> FoundSeeds:
    async def main() -> FoundSeeds:
        client = ApiClient("Opilio/test (+https://opilio.example/about)")
        tree = complete_engine("mine", {"kind": "searxng", "url": url, "pause_s": 0.0, "timeout_s": 60.0, **options})
        try:
            return await find_seeds([build_source("mine", tree, client, SystemClock(), MemoryQuota())], request)
        finally:
            await client.close()

    return asyncio.run(main())


def votes(seen: FoundSeeds) -> dict[str, tuple[int, str]]:
    return {seed.url.rpartition("/")[2]: (seed.priority, " ".join(seed.sources)) for seed in seen.seeds}


THREE = ["alpha", "beta", "gamma"]


def test_three_engines_vote_s0_11(server: str) -> None:
    seen = found(server, SeedRequest(query="wrens"), engines=THREE)
    assert votes(seen) == {
        "u1": (1, "alpha beta gamma"),
        "u2": (2, "alpha beta"),
        "u5": (3, "gamma"),
        "u3": (3, "alpha"),
        "u4": (3, "beta"),
    }
    assert seen.problems == ()


def test_rules_filter_what_the_server_brings_s1_15_s4_12(server: str) -> None:
    assert list(votes(found(server, SeedRequest(query="wrens", agree="two"), engines=THREE))) == ["u1", "u2"]
    assert list(votes(found(server, SeedRequest(query="wrens", agree="all"), engines=THREE))) == ["u1"]


def test_engine_that_finds_nothing_is_counted_among_those_that_answered(server: str, double: SearchDouble) -> None:
    """SearXNG names it nowhere in its answer: `/config` does."""
    double.lists["gamma"] = []
    seen = found(server, SeedRequest(query="herons"))
    assert "gamma" in seen.voters
    assert votes(seen)["u1"][0] == 2


def test_engine_that_answers_429_is_reported_and_does_not_count(server: str, double: SearchDouble) -> None:
    double.faults["broken"] = "429"
    seen = found(server, SeedRequest(query="robins"))
    assert seen.voters == ("alpha", "beta", "gamma")
    assert votes(seen)["u1"] == (1, "alpha beta gamma")
    (problem,) = seen.problems
    assert (problem.engine, problem.failure.kind) == ("broken", "limit")


def test_address_that_is_no_search_is_reported(server: str) -> None:
    seen = found(f"{server}/static", SeedRequest(query="wrens"))
    (problem,) = seen.problems
    assert (seen.seeds, problem.engine) == ((), "mine")


def test_nothing_found_is_an_answer(server: str, double: SearchDouble) -> None:
    double.lists = {}
    seen = found(server, SeedRequest(query="nothing"), engines=THREE)
    assert (seen.seeds, seen.problems, seen.voters) == ((), (), ("alpha", "beta", "gamma"))


def test_command_prints_the_votes_of_the_real_server(server: str, tmp_path: Path) -> None:
    table = (
        f'[seeds.engines.mine]\nkind = "searxng"\nurl = "{server}"\ntimeout_s = 60.0\nengines = {json.dumps(THREE)}\n'
    )
    (tmp_path / "c.toml").write_text(table, encoding="utf-8")
    folders = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = opilio("seeds", "wrens", "--config", tmp_path / "c.toml", environment=folders)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split(maxsplit=3) == ["1", "3/3", "https://e.example/u1", "alpha, beta, gamma"]
