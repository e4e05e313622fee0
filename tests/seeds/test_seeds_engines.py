"""Every engine against a server that answers in its real shape: paging, keys, refusals, broken answers."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from checks.search_doubles import KEY, SearchDouble, search_double
from checks.small_webs import SmallWeb, crawl, grid, page, served, settings_for
from opilio.core.clock import SystemClock
from opilio.core.errors import ConfigError
from opilio.core.records import EngineAnswer
from opilio.core.registry import SEED_ENGINES, plugin_names
from opilio.engine.wiring.seed_engines import build_source, complete_engine
from opilio.engine.wiring.settings import complete_settings
from opilio.fetch.api_client import ApiClient
from opilio.seeds.api_client import MemoryQuota, Quota
from opilio.topic.setup import resolve_settings

AGENT = "Opilio/test (+https://opilio.example/about)"
PAGED = ("brave", "kagi", "mojeek", "marginalia")
URLS = [f"https://site{i}.example/wren" for i in range(1, 46)]


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchDouble]:
    monkeypatch.setenv("TEST_SEARCH_KEY", KEY)
    with search_double() as running:
        yield running


def ask(
    tree: dict[str, Any], limit: int = 45, query: str = "wrens", genre: str = "", tally: Quota | None = None
) -> list[EngineAnswer]:
    async def main() -> list[EngineAnswer]:
        client = ApiClient(AGENT)
        source = build_source("mine", complete_engine("mine", tree), client, SystemClock(), tally or MemoryQuota())
        try:
            return list(await source.find(query, limit, genre))
        finally:
            await client.close()

    return asyncio.run(main())


def urls(answers: list[EngineAnswer]) -> list[str]:
    (answer,) = answers
    assert answer.failure is None, answer.failure
    assert [hit.rank for hit in answer.hits] == list(range(1, len(answer.hits) + 1))
    return [hit.url for hit in answer.hits]


@pytest.mark.parametrize("kind", PAGED)
def test_engine_is_paged_through_until_there_is_enough(double: SearchDouble, kind: str) -> None:
    double.lists[kind] = URLS
    assert urls(ask(double.engine(kind), limit=45)) == URLS
    assert urls(ask(double.engine(kind), limit=7)) == URLS[:7]


@pytest.mark.parametrize("kind", PAGED)
def test_paging_ends_when_the_engine_has_no_more(double: SearchDouble, kind: str) -> None:
    double.lists[kind] = URLS[:3]
    assert urls(ask(double.engine(kind), limit=45)) == URLS[:3]
    assert len(double.asked(kind)) <= 2


@pytest.mark.parametrize("kind", PAGED)
def test_engine_that_finds_nothing_has_answered(double: SearchDouble, kind: str) -> None:
    (answer,) = ask(double.engine(kind))
    assert answer.has_answered
    assert answer.hits == ()


@pytest.mark.parametrize("kind", PAGED)
def test_wrong_key_is_reported_without_the_key(
    double: SearchDouble, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TEST_SEARCH_KEY", "a-wrong-key")
    double.lists[kind] = URLS
    (answer,) = ask(double.engine(kind))
    assert answer.failure is not None
    assert answer.failure.kind == "key"
    assert "a-wrong-key" not in repr(answer)


@pytest.mark.parametrize("kind", PAGED)
@pytest.mark.parametrize("fault", ["echo", "echo 200", "echo moved"])
def test_key_that_an_engine_repeats_is_cut_from_what_is_reported(
    double: SearchDouble, monkeypatch: pytest.MonkeyPatch, kind: str, fault: str
) -> None:
    monkeypatch.setenv("TEST_SEARCH_KEY", "ab+c/SECRET%key")
    double.faults[kind] = fault
    result = repr(ask(double.engine(kind)))
    assert "SECRET" not in result
    assert fault != "echo" or "no token" in result


def test_result_that_holds_the_key_is_left_out(double: SearchDouble) -> None:
    double.lists["brave"] = [URLS[0], f"https://e.example/?token={KEY}"]
    assert urls(ask(double.engine("brave"))) == URLS[:1]


@pytest.mark.parametrize("kind", (*PAGED, "mediawiki", "mediawiki-links", "mediawiki-backlinks", "searxng"))
@pytest.mark.parametrize(("fault", "result"), [("html", "web page instead of JSON"), ("malformed", "can't be read")])
def test_what_is_no_json_is_reported(double: SearchDouble, kind: str, fault: str, result: str) -> None:
    double.faults[kind.removesuffix("-links").removesuffix("-backlinks")] = fault
    (answer,) = ask(double.engine(kind))
    assert answer.failure is not None
    assert (answer.failure.kind, answer.hits) == ("answer", ())
    assert result in answer.failure.detail


@pytest.mark.parametrize("kind", sorted(set(plugin_names(SEED_ENGINES)) - {"file", "sitemap", "collection"}))
@pytest.mark.parametrize(("fault", "failure"), [("429", "limit"), ("500", "status"), ("moved", "status")])
def test_refusal_is_a_failure_of_that_engine(double: SearchDouble, kind: str, fault: str, failure: str) -> None:
    double.faults[kind.removesuffix("-links").removesuffix("-backlinks")] = fault
    double.retry_after = "3600"
    (answer,) = ask(double.engine(kind))
    assert answer.failure is not None
    assert answer.failure.kind == failure
    assert not answer.has_answered


def test_engine_that_is_slow_is_given_up(double: SearchDouble) -> None:
    double.faults["brave"] = "slow"
    (answer,) = ask(double.engine("brave", timeout_s=0.2))
    assert answer.failure is not None
    assert answer.failure.kind == "timeout"


def test_server_that_is_not_there_is_reported(double: SearchDouble) -> None:
    (answer,) = ask({**double.engine("searxng"), "url": "http://127.0.0.1:1/"})
    assert answer.failure is not None
    assert answer.failure.kind == "connect"


def test_page_that_came_before_a_failure_is_kept(double: SearchDouble) -> None:
    double.lists["brave"] = URLS
    (answer,) = ask(double.engine("brave", budget=1), limit=45)
    assert [hit.url for hit in answer.hits] == URLS[:20]
    assert answer.failure is not None
    assert answer.failure.kind == "budget"


def test_short_retry_after_is_waited_for(double: SearchDouble) -> None:
    double.lists["brave"] = URLS[:3]
    double.faults["brave"], double.retry_after = "429 once", "1"
    assert urls(ask(double.engine("brave"))) == URLS[:3]
    assert len(double.asked("brave")) == 2


def test_long_retry_after_is_remembered_and_respected(double: SearchDouble) -> None:
    double.faults["brave"], double.retry_after = "429", "3600"
    tally = MemoryQuota()
    ask(double.engine("brave"), tally=tally)
    double.faults.clear()
    (answer,) = ask(double.engine("brave"), tally=tally)
    assert answer.failure is not None
    assert "asks for a pause" in answer.failure.detail
    assert len(double.asked("brave")) == 1


def test_key_goes_where_the_engine_wants_it_and_nowhere_else(double: SearchDouble) -> None:
    for kind in PAGED:
        ask(double.engine(kind))
    for asked in double.log:
        places = [KEY in value for value in (*asked.query.values(), *asked.headers.values(), asked.body.decode())]
        assert sum(places) == 1
        assert asked.headers["user-agent"] == AGENT


@pytest.mark.parametrize("kind", PAGED)
def test_engine_without_genres_is_asked_by_words_s3_02(double: SearchDouble, kind: str) -> None:
    double.by_query[kind, "wrens blog"] = URLS[:2]
    assert urls(ask(double.engine(kind), genre="blogs")) == URLS[:2]


def test_long_query_is_cut_to_what_brave_takes(double: SearchDouble) -> None:
    ask(double.engine("brave"), query="word " * 80)
    (asked,) = double.asked("brave")
    assert len(asked.query["q"].split()) == 50


def test_mediawiki_search_gives_the_articles(double: SearchDouble) -> None:
    double.lists["mediawiki"] = ["Eurasian wren", "Wren (bird)", "Zaunkönig"]
    found = urls(ask(double.engine("mediawiki"), limit=2))
    assert found == [f"{double.url}/wiki/Eurasian_wren", f"{double.url}/wiki/Wren_(bird)"]
    assert urls(ask(double.engine("mediawiki")))[2].endswith("/wiki/Zaunk%C3%B6nig")


@pytest.mark.parametrize("path", ["/wiki/$1", "/w/index.php?title=$1", "/index.php/$1"])
def test_mediawiki_states_where_its_articles_are(double: SearchDouble, path: str) -> None:
    double.article_path = path
    double.lists["mediawiki"] = ["What? Wrens & more"]
    article = double.url + path.replace("$1", "What%3F_Wrens_%26_more")
    assert urls(ask(double.engine("mediawiki"))) == [article]
    double.backlinks = {"What? Wrens & more": ["Nest box"]}
    assert urls(ask(double.engine("mediawiki-backlinks"), query=article)) == [
        double.url + path.replace("$1", "Nest_box")
    ]
    assert urls(ask(double.engine("mediawiki", article="/a/"))) == [f"{double.url}/a/What%3F_Wrens_%26_more"]


@pytest.mark.parametrize("path", ["https://evil.example/$1", "/wiki/", "", "//evil.example/$1"])
def test_mediawiki_cannot_name_another_host_for_its_articles(double: SearchDouble, path: str) -> None:
    double.article_path = path
    double.lists["mediawiki"] = ["Wren"]
    (found,) = urls(ask(double.engine("mediawiki")))
    assert found.startswith(f"{double.url}/")
    assert found.endswith("/Wren")


def test_mediawiki_that_lags_is_asked_again_after_the_pause(double: SearchDouble) -> None:
    """`maxlag`: an error with status 200 and Retry-After."""
    double.faults["mediawiki"], double.retry_after = "lag once", "5"
    double.lists["mediawiki"] = ["Wren"]
    assert urls(ask(double.engine("mediawiki"))) == [f"{double.url}/wiki/Wren"]
    assert len(double.asked("mediawiki")) == 2


def test_mediawiki_links_are_the_external_ones_of_the_articles(double: SearchDouble) -> None:
    double.lists["mediawiki"] = ["Eurasian wren"]
    double.lists["extlinks"] = [
        "https://birds.example/about",
        "https://web.archive.org/web/2020/https://x.example/",
        "//cite.example/songs-of-wrens",
        "https://doi.org/10.1/1",
        "https://birds.example/robin",
    ]
    found = urls(ask(double.engine("mediawiki-links")))
    assert found == [
        "https://cite.example/songs-of-wrens",
        "https://birds.example/about",
        "https://birds.example/robin",
    ]


def test_mediawiki_backlinks_are_the_articles_that_link_to_a_page_s1_22(double: SearchDouble) -> None:
    double.backlinks = {"Zaunkönig (bird)": ["Wren", "Nest box"], "birds.example/wrens?a=1": ["Bird song"]}
    engine = double.engine("mediawiki-backlinks")
    article = f"{double.url}/wiki/Zaunk%C3%B6nig_(bird)"
    wanted = [f"{double.url}/wiki/Wren", f"{double.url}/wiki/Nest_box"]
    assert urls(ask(engine, query=article)) == urls(ask(engine, query="Zaunkönig (bird)")) == wanted
    assert urls(ask(engine, query="link:https://birds.example/wrens?a=1")) == [f"{double.url}/wiki/Bird_song"]
    assert urls(ask(engine, query="https://birds.example/")) == []


def test_common_crawl_lists_addresses_with_the_words_first(double: SearchDouble) -> None:
    double.lists["common-crawl"] = [f"https://birds.example/{n}" for n in ("about", "wrens/1", "cars")]
    tree = double.engine("common-crawl", patterns=["*.birds.example", "nothing.example/*"])
    (answer,) = ask(tree, limit=2)
    assert [hit.url for hit in answer.hits] == ["https://birds.example/wrens/1", "https://birds.example/about"]
    assert (answer.failure, answer.fixed_priority) == (None, 3)
    assert [a.path for a in double.log].count("/common-crawl/collinfo.json") == 1


def test_sitemap_index_is_followed_and_unpacked(double: SearchDouble) -> None:
    double.lists["sitemap"] = ["https://birds.example/a?x=1&y=2", "https://birds.example/wren-songs"]
    (answer,) = ask({"kind": "sitemap", "urls": [f"{double.url}/sitemap/index.xml"], "pause_s": 0.0})
    assert [hit.url for hit in answer.hits] == ["https://birds.example/wren-songs", "https://birds.example/a?x=1&y=2"]
    assert answer.failure is None


def test_sitemap_that_is_invalid_is_reported(double: SearchDouble) -> None:
    (answer,) = ask({"kind": "sitemap", "urls": [f"{double.url}/html/x?q=a"]})
    assert answer.failure is not None
    assert "is not a sitemap" in answer.failure.detail


def test_file_is_listed_with_its_priorities(tmp_path: Any) -> None:
    (tmp_path / "s.txt").write_text(
        "# mine\nhttps://a.example/\nhttps://b.example/\t2\tbrave, kagi\n", encoding="utf-8"
    )
    answers = ask({"kind": "file", "path": str(tmp_path / "s.txt")})
    assert [(a.fixed_priority, a.hits[0].url) for a in answers] == [
        (1, "https://a.example/"),
        (2, "https://b.example/"),
    ]


def test_file_is_listed_whole_and_lines_that_are_no_addresses_are_reported(tmp_path: Any) -> None:
    rows = [*URLS, "", "# more", "wren.example", "htp://x.example/"]
    (tmp_path / "s.txt").write_text("\n".join(rows), encoding="utf-8")
    found, result = ask({"kind": "file", "path": str(tmp_path / "s.txt")}, limit=30)
    assert [hit.url for hit in found.hits] == URLS
    assert result.failure is not None
    assert f"{tmp_path}/s.txt, lines 48, 49: not a valid http(s) URL" in result.failure.detail


def test_file_that_is_missing_is_a_failure_and_no_crash(tmp_path: Any) -> None:
    (answer,) = ask({"kind": "file", "path": str(tmp_path / "none.txt")})
    assert answer.failure is not None
    assert "can't be read" in answer.failure.detail


def test_own_collection_is_searched(tmp_path: Any) -> None:
    pages = grid(1, 4) | {"http://h0.example/9.html": page("Trains and railways.")}
    with served(SmallWeb(pages)) as server:
        crawl(tmp_path / "c", settings_for(server, [*pages]))
    tree = {"kind": "collection", "folders": [str(tmp_path / "c")], "relevant": False}
    assert urls(ask(tree, query='railways: "trains" -')) == ["http://h0.example/9.html"]
    assert len(urls(ask({**tree, "relevant": True}, query="small birds", limit=3))) == 3


def test_collection_that_is_invalid_is_a_failure_and_no_crash(tmp_path: Any) -> None:
    (answer,) = ask({"kind": "collection", "folders": [str(tmp_path / "nowhere")]})
    assert answer.failure is not None
    assert "not a collection" in answer.failure.detail


def test_searxng_gives_an_answer_of_each_engine_behind_it(double: SearchDouble) -> None:
    double.lists |= {"alpha": URLS[:3], "beta": URLS[1:2]}
    answers = {answer.voter: answer for answer in ask(double.engine("searxng"))}
    assert {name: len(answer.hits) for name, answer in answers.items()} == {"alpha": 3, "beta": 1, "gamma": 0}
    assert all(answer.has_answered for answer in answers.values())


def test_suspended_engine_of_searxng_has_not_answered(double: SearchDouble) -> None:
    double.lists |= {"alpha": URLS[:3], "beta": URLS[:1]}
    double.faults["gamma"] = "429"
    answers = {answer.voter: answer for answer in ask(double.engine("searxng"))}
    failure = answers["gamma"].failure
    assert failure is not None
    assert (failure.kind, answers["gamma"].has_answered) == ("limit", False)


def test_server_that_fails_on_a_later_page_is_reported_and_the_first_page_counts(double: SearchDouble) -> None:
    double.lists["alpha"] = URLS[:3]
    answers = {answer.voter: answer for answer in ask(double.engine("searxng", budget=1))}
    assert len(answers["alpha"].hits) == 3
    failure = answers["mine"].failure
    assert failure is not None
    assert failure.kind == "budget"


def test_private_address_is_asked_only_where_the_user_named_it(double: SearchDouble) -> None:
    """The list of crawls leads to a server of its own choice: its address is guarded like any stranger's."""
    double.lists["common-crawl"] = ["https://birds.example/wren"]
    real = double.url
    double.url = real.replace("127.0.0.1", "localhost")  # what collinfo.json names; we were given 127.0.0.1
    tree = {**double.engine("common-crawl", patterns=["birds.example/*"]), "url": f"{real}/common-crawl"}
    (answer,) = ask(tree)
    assert answer.failure is not None
    assert answer.failure.kind == "private-address"


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no kind": ("mine", {"url": "http://a.example/"}, "seeds.engines.mine needs a kind"),
    "unknown kind": ("mine", {"kind": "brve"}, "did you mean 'brave'?"),
    "unknown option": ("mine", {"kind": "searxng", "ulr": "x"}, "did you mean 'url'?"),
    "no url": ("mine", {"kind": "searxng"}, "seeds.engines.mine.url: missing"),
    "no web address": ("mine", {"kind": "searxng", "url": "localhost"}, "not a valid http(s) URL"),
    "no patterns": ("mine", {"kind": "common-crawl"}, "seeds.engines.mine.patterns: missing"),
    "wrong type": ("mine", {"kind": "searxng", "url": "http://a.example/", "budget": "many"}, "budget"),
    "no time": ("brave", {"timeout_s": 0}, "seeds.engines.brave.timeout_s: expected number >= 0.001"),
    "endless": ("brave", {"timeout_s": float("inf")}, "timeout_s"),
    "no number": ("brave", {"pause_s": float("nan")}, "pause_s"),
    "negative pause": ("brave", {"pause_s": -1.0}, "seeds.engines.brave.pause_s: expected number >= 0"),
    "negative patience": ("brave", {"patience_s": -1.0}, "seeds.engines.brave.patience_s: expected number >= 0"),
    "negative budget": ("brave", {"budget": -1}, "seeds.engines.brave.budget: expected whole number >= 0"),
    "no pages": ("brave", {"pages": 0}, "seeds.engines.brave.pages: expected whole number >= 1"),
    "no articles": ("mediawiki-links", {"articles": 0}, "articles: expected whole number >= 1"),
    "no such variable": ("brave", {"key": "env:NO_SUCH_KEY"}, "the environment variable NO_SUCH_KEY is not set"),
    "no such file": ("brave", {"key": "file:/nowhere/key"}, "/nowhere/key: can't be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_engine_that_can_not_be_used_is_reported_in_one_line(case: str) -> None:
    name, tree, result = WRONG[case]
    with pytest.raises(ConfigError) as error:
        build_source(name, complete_engine(name, tree), ApiClient(AGENT), SystemClock(), MemoryQuota())
    assert result in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tree", [{"key": "sk-123456"}, {"url": "https://me:sk-123456@api.example/"}])
def test_secret_in_a_configuration_is_refused_without_repeating_it(tree: dict[str, str]) -> None:
    """Also where the engine is not asked: it would be stored with the collection."""
    with pytest.raises(ConfigError) as error:
        complete_settings(
            resolve_settings(
                {"topic": {"name": "x"}, "seeds": {"urls": ["http://a.example/"], "engines": {"brave": tree}}}
            )
        )
    assert "sk-123456" not in str(error.value)


def test_key_is_read_from_a_file(double: SearchDouble, tmp_path: Any) -> None:
    (tmp_path / "key").write_text(f"\n{KEY}\n", encoding="utf-8")
    double.lists["brave"] = URLS[:2]
    assert urls(ask(double.engine("brave", key=f"file:{tmp_path}/key"))) == URLS[:2]
