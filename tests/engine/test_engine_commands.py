"""Commands to a crawl from another process: pause, resume, stop, ban a host, change the topic."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from checks.small_webs import SmallWeb, crawl, events, flags, grid, known, rows, served, settings_for, started, until
from opilio.core.errors import UsageError
from opilio.core.events import BatchCommitted, CommandApplied, Event
from opilio.engine.commands import TopicReplacement, send_command
from opilio.engine.politeness.traps import HostRules
from opilio.lab.server.server import LabWebServer
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.status import collection_status
from opilio.manage.topic_builder import table_history
from opilio.manage.verify import verify
from opilio.store.collection import collection_exists
from opilio.topic.topic import Topic
from opilio.topic.weights import table_from_weights

SEED = "http://h0.example/0.html"
DROPPED = 4


@contextmanager
def running(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", LabWebServer]]:
    """A crawl that would go on for long, over slow hosts."""
    with served(SmallWeb(grid(4, 500)), slow={f"h{n}.example": 0.02 for n in range(4)}) as server:
        process = started("crawl", *flags(settings_for(server, [SEED])), "--into", folder, "--pages", 0)
        until(lambda: collection_exists(folder) and collection_status(folder).pages > 0, process)
        try:
            yield process, server
        finally:
            process.kill()
            process.communicate()


def test_crawl_pauses_and_resumes_on_command(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with running(folder) as (process, server):
        send_command(folder, "pause", 1.0)
        send_command(folder, "pause", 1.5)  # asking twice changes nothing
        until(lambda: collection_status(folder).state == "paused", process)
        asked, pages = len(server.log), collection_status(folder).pages
        send_command(folder, "boost", 2.0, SEED)  # applied during the pause
        until(lambda: len(events(folder, "CommandApplied")) == 3, process)
        assert (len(server.log), collection_status(folder).pages) == (asked, pages)
        send_command(folder, "resume", 3.0)
        until(lambda: collection_status(folder).pages > pages, process)
        assert collection_status(folder).state == "running"


@pytest.mark.parametrize("rests", [False, True])
def test_crawl_stops_cleanly_when_asked(tmp_path: Path, rests: bool) -> None:
    folder = tmp_path / "c"
    with running(folder) as (process, _):
        if rests:
            send_command(folder, "pause", 1.0)
            until(lambda: collection_status(folder).state == "paused", process)
        send_command(folder, "stop", 2.0, "enough")
        assert process.wait() == 0
    status = collection_status(folder)
    assert (status.state, status.stop_reason) == ("stopped", "enough")
    assert verify(folder) == []


def test_nothing_can_be_asked_of_a_crawl_that_has_ended(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 3))) as server:
        crawl(tmp_path / "c", settings_for(server, [SEED]))
    with pytest.raises(UsageError, match="no crawl is running"):
        send_command(tmp_path / "c", "pause", 1.0)


def _asked_of(folder: Path, word: str, target: str, data: bytes = b"") -> list[str]:
    """Crawl a slow grid; send a command as soon as anything is stored. Returns what was fetched after it."""
    result: list[Event] = []

    def listen(event: Event) -> None:
        if not result:
            send_command(folder, word, 1.0, target, data)
        result.append(event)

    slow = {f"h{n}.example": 0.02 for n in range(3)}
    one_by_one = {"engine": {"connections": 1}, "frontier": {"per_host": 1}}
    with served(SmallWeb(grid(3, 15)), slow=slow) as server:
        crawl(folder, settings_for(server, [SEED], **one_by_one), listen)
    taken = next(at for at, event in enumerate(result) if isinstance(event, CommandApplied))
    later = [event for event in result[taken:] if isinstance(event, BatchCommitted)]
    return [outcome.lead.url for event in later for outcome in event.outcomes]


@pytest.mark.parametrize("command", [("ban", "h1.example"), ("exclude", "*/1?.html")])
def test_unwanted_addresses_are_dropped_now_and_later(tmp_path: Path, command: tuple[str, str]) -> None:
    later = _asked_of(tmp_path / "c", *command)
    excluded = HostRules()
    excluded.apply(*command)
    assert [url for url in later[1:] if excluded.refusal_reason(url)] == []  # the first was in flight
    assert any(state == DROPPED and excluded.refusal_reason(url) for url, state in known(tmp_path / "c").items())


def test_unwanted_addresses_are_refused_by_the_next_run(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with served(SmallWeb(grid(2, 12))) as server:
        crawl(folder, settings_for(server, [SEED], stop={"pages": 1}))
        send_command(folder, "ban", 1.0, "h1.example")
        crawl(folder, settings_for(server, [SEED], stop={"pages": 0}))
    assert [url for (url,) in rows(folder, "SELECT url FROM page") if "//h1." in url] == []
    assert len(rows(folder, "SELECT 1 FROM page")) > 1


def test_boosted_host_is_asked_before_all_others(tmp_path: Path) -> None:
    boosted = ["//h1." in url for url in _asked_of(tmp_path / "c", "boost_host", "h1.example")[1:]]
    assert any(boosted)
    assert boosted == sorted(boosted, reverse=True)  # its pages all link each other: nothing goes between


@pytest.mark.parametrize("agents", [0, 2])
def test_boosted_host_is_asked_first_by_the_next_run_until_taken_back(tmp_path: Path, agents: int) -> None:
    folder, one_by_one = tmp_path / "c", {"engine": {"connections": 1}, "frontier": {"per_host": 1}}
    one_by_one["agents"] = {"count": agents, "requests": 1}
    with served(SmallWeb(grid(2, 15))) as server:
        for pages, word in ((2, "boost_host"), (5, "unboost_host"), (7, "")):
            crawl(folder, settings_for(server, [SEED], stop={"pages": pages}, **one_by_one))
            if word:
                send_command(folder, word, 1.0, "h1.example")
    hosts = [host for (host,) in rows(folder, "SELECT host FROM page ORDER BY seq")]
    assert hosts[:5] == ["h0.example"] * 2 + ["h1.example"] * 3
    assert "h0.example" in hosts[5:]
    assert verify(folder) == []


def test_delay_of_a_host_is_kept_when_asked(tmp_path: Path) -> None:
    _asked_of(tmp_path / "c", "delay", "h2.example", b"0.01")
    assert rows(tmp_path / "c", "SELECT delay_s FROM frontier_host WHERE name = 'h2.example'") == [(0.01,)]


@pytest.mark.parametrize(
    "bad", [("exclude", "**"), ("ban", " "), ("boost_host", ""), ("boost", "wren"), ("dance", "x")]
)
def test_command_without_a_meaning_is_refused(tmp_path: Path, bad: tuple[str, str]) -> None:
    with served(SmallWeb(grid(1, 3))) as server:
        crawl(tmp_path / "c", settings_for(server, [SEED]))
    with pytest.raises(UsageError):
        send_command(tmp_path / "c", bad[0], 1.0, bad[1])
    assert rows(tmp_path / "c", "SELECT * FROM command") == []


def test_new_topic_is_a_version_of_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    new = TopicReplacement(Topic(name="wrens", keywords={"warbler": 1.0}), table_from_weights({"warbler": 1.0}))
    _asked_of(folder, "topic", "", msgspec.msgpack.encode(new))
    table = table_history(folder)[-1][1]
    assert [k.stem for k in table.keywords] == ["warbler"]
    last = rows(folder, "SELECT relevant FROM page ORDER BY seq DESC LIMIT 1")
    assert last == [(0,)]  # judged by the new table


def _label_is_learned(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Label the seed irrelevant: the verdict, the event and the judge's journal follow, with no page fetched."""
    pages, lessons = collection_status(folder).pages, rows(folder, "SELECT count(*) FROM lesson")
    report, problems = label_pages(folder, [LabelRequest(SEED, False, "test")], 2.0)
    assert (report.running, problems) == (True, [])
    until(lambda: events(folder, "PageLabeled") != [], process)
    assert rows(folder, "SELECT relevant FROM page WHERE url = ?", SEED) == [(0,)]
    assert rows(folder, "SELECT count(*) FROM lesson") > lessons
    assert collection_status(folder).pages == pages


@pytest.mark.parametrize("idle", [False, True])
def test_label_is_learned_while_the_crawl_is_paused_or_idle(tmp_path: Path, idle: bool) -> None:
    folder, web = tmp_path / "c", SmallWeb(grid(1, 500))
    with served(web, slow={"h0.example": 0.02}) as server:
        tree = settings_for(server, [SEED], strategy="opilio", stop={"patience_s": 9000.0})
        process = started("crawl", *flags(tree), "--into", folder, "--pages", 0)
        try:
            until(lambda: collection_exists(folder) and collection_status(folder).pages > 0, process)
            if idle:
                send_command(folder, "delay", 1.0, "h0.example", b"3000")
                resting = "SELECT count(*) FROM frontier_host WHERE delay_s = 3000 AND wake_at > unixepoch() + 1000"
                until(lambda: rows(folder, resting) == [(1,)], process)
                until(lambda: rows(folder, "SELECT count(*) FROM frontier_lease") == [(0,)], process)
            else:
                send_command(folder, "pause", 1.0)
                until(lambda: collection_status(folder).state == "paused", process)
            _label_is_learned(folder, process)
        finally:
            process.kill()
            process.communicate()
