"""Whole crawls by agents, over real sockets: nothing twice, nothing lost, several topics in one crawl, exchange."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.killing import kill_often, polite_throughout, same_as_undisturbed
from checks.small_webs import (
    BIRDS,
    PATIENCE_S,
    TRAINS,
    SmallWeb,
    crawl,
    events,
    grid,
    known,
    opilio,
    page,
    rows,
    served,
    settings_for,
    stored,
    word,
)
from opilio.core.errors import ConfigError, TopicError
from opilio.core.events import BatchCommitted, Event
from opilio.core.records import Reading, Verdict
from opilio.core.settings import Tree
from opilio.core.strategies import strategy_names
from opilio.engine.commit import BatchCommitter
from opilio.engine.wiring.session import create_crawl
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.topic import build_topic
from opilio.engine.workers.pool import InlinePool
from opilio.lab.server.http import AccessLogEntry
from opilio.manage.status import collection_status, list_agents
from opilio.manage.topic_builder import table_history
from opilio.manage.topic_editor import draft_topic, preview_topic, save_topic
from opilio.manage.verify import verify
from opilio.methods.agents.frontier import SharedFrontier
from opilio.methods.agents.manager import AgentManager
from opilio.methods.agents.plugin import TeamAnalyzer, agent_profiles
from opilio.store.collection import open_readonly
from opilio.topic.setup import resolve_settings
from opilio.topic.topic import Topic

WEB = grid(hosts=6, pages=20)
SEEDS = [f"http://h{n}.example/0.html" for n in (0, 2, 4)]


def by_agents(server: Any, seeds: list[str] = SEEDS, **more: Any) -> Tree:
    tree = settings_for(server, seeds, **more)
    return {**tree, "strategy": "s3-agents"}


def asked(log: list[AccessLogEntry]) -> Counter[str]:
    """How often each page was asked for."""
    return Counter(f"http://{a.host}{a.target}" for a in log if not a.target.endswith("robots.txt"))


def watched(folder: Path, tree: Tree, act: Callable[[AgentManager, Event], None]) -> str:
    """A new crawl whose test holds the manager."""

    async def main() -> str:
        async with create_crawl(folder, resolve_settings(tree)) as running:
            committer = running.engine._parts.committer
            assert isinstance(committer, BatchCommitter)
            frontier = committer._targets.frontier
            assert isinstance(frontier, SharedFrontier)
            running.engine.add_listener(lambda event: act(frontier.manager, event))
            return await asyncio.wait_for(running.engine.run(), PATIENCE_S)

    return asyncio.run(main())


def test_agents_of_a_stopped_crawl_do_not_work(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", by_agents(server, stop={"pages": 6}))
    assert {a["state"] for a in list_agents(tmp_path / "c")} == {"stopped"}
    agents = collection_status(tmp_path / "c").agents
    assert agents is not None
    assert all(state.startswith("stopped, ") for state in agents.values())


def test_topic_changed_between_two_runs_changes_the_agents_tables(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with served(SmallWeb(WEB)) as server:
        crawl(folder, by_agents(server, stop={"pages": 6}))
        with open_readonly(folder) as collection:
            new = draft_topic(collection, Topic(name="trains", keywords={"boiler": 1.0}))
            judged = preview_topic(collection, new).pages
        assert [page for page in judged if page["relevant_after"]] == []
        save_topic(folder, new, 2e9)
        assert [set(a["words"]) for a in list_agents(folder)] == [{"boiler", "trains"}] * 3
        crawl(folder, by_agents(server, stop={"pages": 12}))
    assert all(not {"wren", "nest"} & set(a["words"]) for a in list_agents(folder))


def test_agents_fetch_everything_once_and_each_its_part(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", by_agents(server))
        log = list(server.log)
    assert stored(tmp_path / "c") == sorted(WEB)
    assert set(asked(log).values()) == {1}
    agents = list_agents(tmp_path / "c")
    assert [a["seeds"] for a in agents] == [1, 1, 1]
    assert sum(a["pages"] for a in agents) == len(WEB)
    assert all(a["pages"] > 10 and a["state"] == "no further move" for a in agents)
    assert verify(tmp_path / "c") == []


def test_host_is_never_pressed_by_two_agents(tmp_path: Path) -> None:
    with served(SmallWeb(grid(hosts=3, pages=8))) as server:
        crawl(tmp_path / "c", by_agents(server, [SEEDS[0], SEEDS[1]], politeness={"delay_s": 0.05}))
        polite_throughout(list(server.log), 0.05)
    assert len(stored(tmp_path / "c")) == 24


def test_links_of_agents_killed_one_by_one_are_taken_over(tmp_path: Path) -> None:
    """The issue's fourth point: nothing is lost, nothing is fetched twice, by the server's log."""

    def kill(manager: AgentManager, event: Event) -> None:
        fetched = sum(agent.record.fetched for agent in manager.agents.values())
        for number, after in ((1, 15), (2, 40)):
            if isinstance(event, BatchCommitted) and fetched >= after:
                manager.agents[number].kill()

    with served(SmallWeb(WEB)) as server:
        watched(tmp_path / "c", by_agents(server, agents={"lease_s": 2.0}), kill)
        log = list(server.log)
    assert stored(tmp_path / "c") == sorted(WEB)
    assert set(asked(log).values()) == {1}
    first, second, third = (a["state"] for a in list_agents(tmp_path / "c"))
    assert (first, second) == ("missing", "missing")
    assert third != "missing"
    assert len(events(tmp_path / "c", "AgentLost")) >= 2
    assert verify(tmp_path / "c") == []


class _Broken:
    """A judge with a bug."""

    def judge(self, reading: Reading) -> Verdict:
        raise ZeroDivisionError(f"a bug at {reading.page.url}")


def test_agent_whose_mind_breaks_costs_no_page_and_is_given_up(tmp_path: Path) -> None:
    """Its code dies: others read what it asked for, and go on with its links; nothing is fetched twice."""

    async def main(tree: Tree) -> None:
        async with create_crawl(tmp_path / "c", resolve_settings(tree)) as running:
            pool = running.engine._parts.visitor._pool
            assert isinstance(pool, InlinePool)
            assert isinstance(pool._analyzer, TeamAnalyzer)
            pool._analyzer._analyzers[2]._judge = _Broken()
            await asyncio.wait_for(running.engine.run(), PATIENCE_S)

    with served(SmallWeb(WEB)) as server:
        asyncio.run(main(by_agents(server)))
        log = list(server.log)
    assert stored(tmp_path / "c") == sorted(WEB)
    assert set(asked(log).values()) == {1}
    broken = list_agents(tmp_path / "c")[1]
    assert broken["state"] == "missing"
    assert broken["reason"].startswith("its analysis failed")
    assert b"agent-2: ZeroDivisionError" in events(tmp_path / "c", "VisitFailed")[0]


def test_crawl_says_so_when_every_agent_is_dead_and_goes_on_when_run_again(tmp_path: Path) -> None:
    def kill(manager: AgentManager, event: Event) -> None:
        if isinstance(event, BatchCommitted):
            for agent in manager.agents.values():
                agent.kill()

    with served(SmallWeb(WEB)) as server:
        tree = by_agents(server, agents={"lease_s": 0.5})
        watched(tmp_path / "c", tree, kill)
        assert 0 < len(stored(tmp_path / "c")) < len(WEB)
        crawl(tmp_path / "c", tree)
        log = list(server.log)
    assert stored(tmp_path / "c") == sorted(WEB)
    assert max(asked(log).values()) == 1


def test_crawl_by_agents_loses_nothing_when_killed_at_random_moments(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = by_agents(server, politeness={"delay_s": 0.03}, agents={"exchange_links": True})
        crawl(tmp_path / "undisturbed", {**tree, "politeness": {"delay_s": 0.0}})
        server.log.clear()
        hit = kill_often(tmp_path / "killed", tree, 8, 0.5, random.Random(7), server.log)
        log = list(server.log)
    assert hit >= 4
    same_as_undisturbed(tmp_path / "killed", tmp_path / "undisturbed")
    polite_throughout(log, 0.03)
    assert sum(a["pages"] for a in list_agents(tmp_path / "killed")) == len(WEB)


def two_topics() -> dict[str, Any]:
    """Birds and trains, each page linking one of its own kind and one of the other."""
    web = {}
    for n in range(30):
        text = BIRDS if n % 2 else TRAINS
        links = [f"http://h{(n + step) % 3}.example/{(n + step) % 30}.html" for step in (1, 2)]
        web[f"http://h{n % 3}.example/{n}.html"] = page(f"{text} {word(n)} {word(n + 100)}", links)
    return web


EACH: list[dict[str, Any]] = [
    {"name": "birds", "seeds": ["http://h1.example/1.html"]},
    {"name": "trains", "topic": {"name": "railway locomotive freight wagons"}, "seeds": ["http://h0.example/0.html"]},
]


def test_page_is_fetched_once_and_judged_for_every_topic(tmp_path: Path) -> None:
    with served(SmallWeb(two_topics())) as server:
        tree = by_agents(server, [], agents={"count": 2, "each": EACH}, expansion={"kind": "none"})
        crawl(tmp_path / "c", tree)
        assert set(asked(list(server.log)).values()) == {1}
    said = rows(
        tmp_path / "c",
        "SELECT p.url, a.name, v.relevant FROM verdict v"
        " JOIN page p ON p.key = v.page JOIN agent a ON a.number = v.agent",
    )
    assert len(said) == 60
    numbers = {(int(url.rpartition("/")[2].removesuffix(".html")) % 2, name): relevant for url, name, relevant in said}
    assert numbers == {(1, "birds"): 1, (0, "birds"): 0, (1, "trains"): 0, (0, "trains"): 1}
    assert collection_status(tmp_path / "c").relevant == 30


@pytest.mark.parametrize("trains", [{"name": "railway locomotive"}, {"name": "steam", "dewey": ["385", "625"]}])
def test_agent_of_another_topic_has_its_own_classes(trains: dict[str, Any]) -> None:
    """Not those of the crawl: given by itself, or found from its words."""
    settings = resolve_settings(
        {
            "strategy": "s3-agents",
            "topic": {"name": "birds", "dewey": ["598"]},
            "judge": {"kind": "dewey"},
            "agents": {"count": 2, "each": [{"name": "birds"}, {"name": "trains", "topic": trains}]},
        }
    )
    birds, other = (build_topic(profile.settings).dewey for profile in agent_profiles(complete_settings(settings)))
    assert birds == ("598",)
    assert "625" in other
    assert "598" not in other


def test_agent_with_a_wrong_class_leaves_no_folder(tmp_path: Path) -> None:
    each = [{"name": "trains", "topic": {"name": "railways", "dewey": ["38x"]}}]
    seeds = {"urls": ["http://h0.example/"]}
    settings = resolve_settings(
        {"strategy": "s3-agents", "topic": {"name": "birds"}, "seeds": seeds, "agents": {"each": each}}
    )
    with pytest.raises(TopicError, match='"38x": not a class'):
        create_crawl(tmp_path / "c", settings)
    assert not (tmp_path / "c").exists()


def test_page_for_another_topic_is_shared_when_it_is_found(tmp_path: Path) -> None:
    with served(SmallWeb(two_topics())) as server:
        crawl(tmp_path / "c", by_agents(server, [], agents={"count": 2, "each": EACH}, expansion={"kind": "none"}))
    birds, trains = list_agents(tmp_path / "c")
    exported = opilio("export", tmp_path / "c", "--topic", EACH[1]["topic"]["name"]).stdout.splitlines()
    assert len(exported) == 15
    assert all("locomotive" in line for line in exported)
    assert "topics: railway locomotive" in opilio("export", tmp_path / "c", "--topic", "fish").stderr
    assert birds["relevant"] + birds["shared"] == 15
    assert trains["relevant"] + trains["shared"] == 15


def test_agents_exchange_words_and_links_when_enabled(tmp_path: Path) -> None:
    """S3-F3, and nothing of it without the switches."""
    with served(SmallWeb(WEB)) as server:
        more = {"exchange_words": True, "exchange_links": True, "exchange_lessons": True}
        crawl(tmp_path / "talking", by_agents(server, agents=more))
        crawl(tmp_path / "silent", by_agents(server))
        assert set(asked(list(server.log)).values()) == {2}
    result = [data.decode() for data in events(tmp_path / "talking", "AgentsExchanged")]
    assert any('"words"' in data for data in result)
    assert any('"links"' in data for data in result)
    assert sum(a["received"] for a in list_agents(tmp_path / "talking")) > 0
    assert events(tmp_path / "silent", "AgentsExchanged") == []
    assert sum(a["received"] for a in list_agents(tmp_path / "silent")) == 0


@pytest.mark.parametrize("rank", ["committee", "attributes", "shark"])
@pytest.mark.slow
def test_agents_work_with_every_kind_of_ranker(tmp_path: Path, rank: str) -> None:
    with served(SmallWeb(grid(hosts=3, pages=12))) as server:
        tree = by_agents(server, SEEDS[:2], rank={"kind": rank}, judge={"kind": "learned"}, engine={"workers": 1})
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 10}})
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
        assert set(asked(list(server.log)).values()) == {1}
    assert len(stored(tmp_path / "c")) == 36
    assert verify(tmp_path / "c") == []


def test_agent_stops_when_it_has_found_enough(tmp_path: Path) -> None:
    """S3-03."""
    with served(SmallWeb(WEB)) as server:
        reason = crawl(tmp_path / "c", by_agents(server, agents={"relevant": 5, "requests": 1}))
    assert reason == "every agent has reached its goal"
    assert [a["relevant"] for a in list_agents(tmp_path / "c")] == [5, 5, 5]


def test_agents_command_shows_them_and_sends_one_home(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = by_agents(server)
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 20}})
        result = opilio("maintain", "agents", tmp_path / "c", "--retire", "agent-2")
        before = list_agents(tmp_path / "c")[1]["pages"]
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert result.stdout == "agent-2: retires when the crawl is resumed\n"
    assert list_agents(tmp_path / "c")[1]["pages"] == before
    shown = opilio("maintain", "agents", tmp_path / "c").stdout
    assert "retired: retired by the user" in shown
    assert "agent-1 learned:" in shown
    assert stored(tmp_path / "c") == sorted(WEB)
    assert '"harvest":' in opilio("maintain", "agents", tmp_path / "c", "--json").stdout
    assert "agent-2: retired" in opilio("status", tmp_path / "c").stdout


def test_agents_share_the_words_of_their_seeds(tmp_path: Path) -> None:
    """S3-12: a table that is built from the seeds grew, and the user's table stays the first version."""
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", {**by_agents(server), "stop": {"pages": 6}})
    given = {k.label for k in table_history(tmp_path / "c")[0][1].keywords}
    agents = list_agents(tmp_path / "c")
    assert all(a["learnt"] and not given & set(a["learnt"]) for a in agents), agents
    result = opilio("topic", "show", tmp_path / "c")
    assert f"'opilio maintain agents {tmp_path / 'c'}' shows theirs" in result.stderr


@pytest.mark.parametrize("revisit", [{}, {"on": True, "continuous": True}])
def test_crawl_says_so_when_every_agent_was_sent_home(tmp_path: Path, revisit: dict[str, bool]) -> None:
    """No engine is asked for more seeds, and no work is reported that was not done."""
    with served(SmallWeb(WEB)) as server:
        tree = by_agents(server, revisit=revisit)
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 10}})
        for number in (1, 2, 3):
            opilio("maintain", "agents", tmp_path / "c", "--retire", f"agent-{number}")
        fetched = len(server.log)
        first, again = (crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}}) for _ in range(2))
        assert len(server.log) == fetched
    assert first == again == "no agent is left at work"
    assert collection_status(tmp_path / "c").queued > 0


def test_agents_command_says_what_to_do_without_agents(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 2))) as server:
        crawl(tmp_path / "c", settings_for(server, [SEEDS[0]]))
    done = opilio("maintain", "agents", tmp_path / "c")
    assert done.returncode == 2
    assert "--strategy s3-agents" in done.stderr


@pytest.mark.parametrize(
    ("agents", "names"),
    [
        ({"each": [{"name": "birds"}, {"name": "trains"}]}, ["birds", "trains"]),
        ({"each": [{"name": "birds"}], "count": 2}, ["birds", "agent-2"]),
        ({"requests": 2}, ["agent-1", "agent-2", "agent-3"]),
    ],
)
def test_agents_are_as_many_as_requested(agents: dict[str, Any], names: list[str]) -> None:
    """The strategy's number holds only if the user sets no other."""
    tree = {"strategy": "s3-agents", "topic": {"name": "birds"}, "seeds": {"urls": SEEDS}, "agents": agents}
    assert [profile.name for profile in agent_profiles(resolve_settings(tree))] == names


def test_strategies_that_agents_can_not_crawl_by_are_named_in_the_docs() -> None:
    refused = []
    for name in strategy_names():
        try:
            complete_settings(resolve_settings({"strategy": name, "topic": {"name": "birds"}, "agents": {"count": 3}}))
        except ConfigError as error:
            assert "agents keep their own order" in str(error)
            refused.append(f"`{name}`")
    result = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
    assert f"except {' and '.join(refused)}," in " ".join(result.split())


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ({"each": [{"name": "x"}, {"name": "x"}]}, "two agents have the name 'x'"),
        ({"each": [{"topic": {"language": "german"}}]}, "can't be its own"),
        ({"each": [{"seeds": ["example.org"]}]}, r"not a valid http\(s\) URL"),
        ({"count": 300}, "at most 255"),
        ({"count": 2, "most": 5}, "only agents with rank.kind = 'infospiders' have energy"),
        ({"each": [{"sedes": []}]}, "sedes"),
    ],
)
def test_agents_that_make_no_sense_are_refused_before_a_folder_is_made(
    tmp_path: Path, agents: dict[str, Any], message: str
) -> None:
    tree = {"strategy": "s3-agents", "topic": {"name": "birds"}, "seeds": {"urls": SEEDS}, "agents": agents}
    with pytest.raises(ConfigError, match=message):
        create_crawl(tmp_path / "c", resolve_settings(tree))
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_agents_revisit_pages_when_enabled(tmp_path: Path) -> None:
    week, web = 7 * 86_400.0, SmallWeb(WEB)
    with served(web) as server:
        crawl(tmp_path / "c", by_agents(server))
        server.log.clear()
        web.answers["http://h3.example/3.html"] = page(f"{BIRDS} changed since", ["http://h3.example/new.html"])
        web.answers["http://h3.example/new.html"] = page(f"{BIRDS} {word(4242)} and a new one")
        again = by_agents(server, revisit={"on": True, "interval_s": week, "probe": False})
        crawl(tmp_path / "c", again, later_s=2 * week)
        counts = asked(list(server.log))
    assert set(counts) == {*WEB, "http://h3.example/new.html"}
    assert set(counts.values()) == {1}
    assert verify(tmp_path / "c") == []


def test_label_teaches_the_judges_of_all_agents_of_the_topic(tmp_path: Path) -> None:
    with served(SmallWeb(grid(hosts=3, pages=12))) as server:
        tree = by_agents(server, SEEDS[:2], rank={"kind": "committee"}, judge={"kind": "learned"})
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 12}})
        done = opilio("label", tmp_path / "c", SEEDS[0], "--relevant")
        assert done.returncode == 0, done.stderr
        taught = rows(tmp_path / "c", "SELECT DISTINCT name FROM lesson WHERE name LIKE '%judge'")
        assert {"agent-1/judge", "agent-2/judge", "agent-3/judge"} <= {name for (name,) in taught}
        result = opilio("why", tmp_path / "c", SEEDS[0])
        assert "agent-1 fetched it: relevant" in result.stdout
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert len(stored(tmp_path / "c")) == 36


def test_seed_waits_for_its_own_agent_when_another_finds_it_first(tmp_path: Path) -> None:
    """S3-12: a table from the seeds is built when all of an agent's own seeds were visited."""
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", by_agents(server, [f"http://h{n}.example/{p}.html" for p in (0, 1) for n in range(6)]))
    assert len(known(tmp_path / "c")) == len(WEB)
    grown = {
        agent
        for (agent,) in rows(
            tmp_path / "c", "SELECT json_extract(data, '$.agent') FROM event WHERE kind = 'TopicChanged'"
        )
    }
    assert grown == {"agent-1", "agent-2", "agent-3"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"order": {"kind": "aging"}}, "order.kind = 'aging'"),
        ({"frontier": {"merge": "sum"}}, "frontier.merge = 'sum'"),
        ({"engine": {"assembly": "agents"}}, "engine.assembly = 'agents': only for plug-ins; set agents.count"),
        ({"engine": {"assembly": "agent"}}, r"engine.assembly = 'agent': unknown \(did you mean 'agents'\?\)"),
    ],
)
def test_order_or_assembly_that_agents_can_not_keep_is_refused(tmp_path: Path, more: Tree, message: str) -> None:
    tree = {"strategy": "s3-agents", "topic": {"name": "birds"}, "seeds": {"urls": SEEDS}, **more}
    with pytest.raises(ConfigError, match=message):
        create_crawl(tmp_path / "c", resolve_settings(tree))


@pytest.mark.parametrize(
    ("begun", "wanted", "message"), [(0, 2, "started without agents"), (2, 0, "started by agents")]
)
def test_collection_stays_with_or_without_agents(tmp_path: Path, begun: int, wanted: int, message: str) -> None:
    with served(SmallWeb(grid(1, 2))) as server:
        tree = settings_for(server, [SEEDS[0]])
        crawl(tmp_path / "c", {**tree, "agents": {"count": begun}})
        with pytest.raises(ConfigError, match=message):
            crawl(tmp_path / "c", {**tree, "agents": {"count": wanted}})


def test_number_of_agents_may_change_between_two_runs(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = by_agents(server)
        for count, pages in ((3, 30), (2, 60), (5, 0)):
            crawl(tmp_path / "c", {**tree, "agents": {"count": count}, "stop": {"pages": pages}})
            states = [(a["state"], a["reason"]) for a in list_agents(tmp_path / "c")]
            assert (("missing", "not among the agents of this run") in states) == (count == 2)
        assert set(asked(list(server.log)).values()) == {1}
    assert stored(tmp_path / "c") == sorted(WEB)
    assert all(agent["pages"] > 3 for agent in list_agents(tmp_path / "c")), "who joined has worked too"
