"""A crawl in PostgreSQL: the same pages as in a folder, and every command works on it."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import opilio as opilio_api
from checks.opensearch_server import opensearch_double
from checks.page_server import pages_of
from checks.postgres_server import PostgresServer
from checks.small_webs import BIRDS, SmallWeb, grid, one_line, opilio, page, served, settings_for
from opilio.api.crawl_session import open_crawl
from opilio.cli.demo import MARKER_FILE, demo
from opilio.cli.main import run_command
from opilio.core.errors import CollectionError, ConfigError, UsageError
from opilio.core.protocols import Database, Learns
from opilio.core.records import FetchResult
from opilio.engine.cluster import trainer
from opilio.engine.cluster.session import WorkerCommands
from opilio.engine.cluster.worker import WorkerMeter
from opilio.engine.politeness.traps import NOT_ARCHIVED_REASON, HostRules
from opilio.engine.revisit.scheduler import ALL_REVISITED_REASON
from opilio.engine.wiring.assembly import open_analysis
from opilio.engine.wiring.settings import collection_settings
from opilio.engine.wiring.start import initial_states, stored_topic
from opilio.lab.server.server import LabWebServer
from opilio.manage.compact import compact
from opilio.manage.export import export_to_file
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.merge import copy, merge
from opilio.manage.pages import page_history
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.search.searcher import Searcher
from opilio.store.collection import open_readonly
from opilio.store.page_selection import PageFilter
from opilio.store.postgres.cluster import (
    DatabaseClock,
    SharedConnection,
    SharedProgress,
    WorkerFigures,
    crawl_progress,
    database_facts,
    newer_models,
    remove_worker,
    report_worker,
)
from opilio.store.postgres.collection import create_in_database, folder_of, open_database, place_of
from opilio.store.postgres.schema import POSTGRES_SCHEMA_VERSION, replace_schema
from opilio.store.warc import response_record
from opilio.web.pages import PAGES


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def crawl_into(place: str, tree: dict[str, object]) -> str:
    async def run() -> str:
        async with open_crawl(folder_of(place), tree, "test", lambda _: None, lambda _: None) as session:
            return await session.engine.run()

    return asyncio.run(run())


def test_crawl_in_postgres_stores_the_same_pages_as_in_a_folder(dsn: str, tmp_path: Path) -> None:
    with served(SmallWeb(grid(4, 5))) as server:
        tree = settings_for(server, ["http://h0.example/0.html"])
        reason = crawl_into(dsn, tree)
        other = crawl_into(str(tmp_path / "folder"), tree)
    assert reason == other
    with open_readonly(folder_of(dsn)) as ours, open_readonly(tmp_path / "folder") as theirs:
        sql = "SELECT url, status, title, relevant, score, duplicate_of FROM page ORDER BY key"
        assert list(ours.connection.execute(sql)) == list(theirs.connection.execute(sql))


def test_crawl_continues_when_the_last_url_is_fetched_while_the_trainer_looks(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is leased and what waits is read first: a worker can return the last URL before the queue is read."""
    idle_reason, first = trainer._Training._idle_reason, [True]

    async def begin(training: trainer._Training, now: float) -> str:
        first[0] = True
        return await idle_reason(training, now)

    def look_too_early(db: Database) -> SharedProgress:
        progress, is_first = crawl_progress(db), first[0]
        first[0] = False
        return progress._replace(backlog=0, leased=0) if is_first else progress

    monkeypatch.setattr(trainer._Training, "_idle_reason", begin)
    monkeypatch.setattr(trainer, "crawl_progress", look_too_early)
    web = SmallWeb(grid(1, 12))
    with served(web) as server:
        reason = crawl_into(dsn, settings_for(server, ["http://h0.example/0.html"]))
    assert reason == "nothing left to fetch"
    assert collection_status(folder_of(dsn)).pages == len(web.answers)


def test_changed_scope_applies_to_the_queue_of_a_resumed_crawl(dsn: str) -> None:
    with served(SmallWeb(grid(4, 5))) as server:
        crawl_into(dsn, settings_for(server, ["http://h0.example/0.html"], stop={"pages": 2}))
        before = {entry.host for entry in server.log}
        narrow = settings_for(server, ["http://h0.example/0.html"], scope={"deny": ["h3.example"]}, stop={"pages": 0})
        crawl_into(dsn, narrow)
        after = {entry.host for entry in server.log}
    assert "h3.example" not in before and after == {"h0.example", "h1.example", "h2.example"}
    with open_readonly(folder_of(dsn)) as collection:
        sql = "SELECT DISTINCT reason FROM frontier_url WHERE state = 4"
        assert collection.connection.execute(sql).fetchall() == [("out of scope: scope.deny h3.example",)]


def test_links_out_of_an_archive_are_not_requested(dsn: str, tmp_path: Path) -> None:
    root = "http://a.example/"
    web = {root: page(BIRDS, ["/wren", "/absent", "http://b.example/"]), f"{root}wren": page(f"{BIRDS} wren")}
    found = [FetchResult(url=url, status=r.status, headers=r.headers, body=r.body) for url, r in web.items()]
    (tmp_path / "x.warc.gz").write_bytes(b"".join(map(response_record, found)))
    tree: dict[str, object] = {
        "strategy": "breadth",
        "topic": {"name": "small birds"},
        "seeds": {"urls": [root, f"{root}lost"]},
        "fetch": {"archives": [str(tmp_path / "x.warc.gz")]},
        "engine": {"workers": 0},
    }
    crawl_into(dsn, tree)
    folder = folder_of(dsn)
    outside = [f"{root}lost", f"{root}absent", "http://b.example/"]
    assert [why(folder, url).reason for url in outside] == [NOT_ARCHIVED_REASON] * 3
    status = collection_status(folder)
    assert (status.collection, status.pages, status.fetched) == (place_of(folder), 2, 2)
    assert verify(folder) == []


def test_two_crawls_in_one_database_at_once_do_not_disturb_each_other(dsn: str, server: PostgresServer) -> None:
    places = {dsn: 6, server.new_schema(): 4}

    async def run(place: str, web: LabWebServer) -> None:
        tree = settings_for(web, ["http://h0.example/0.html"])
        async with open_crawl(folder_of(place), tree, "test", lambda _: None, lambda _: None) as session:
            await session.engine.run()

    async def run_both(webs: list[LabWebServer]) -> None:
        await asyncio.gather(*(run(place, web) for place, web in zip(places, webs, strict=True)))

    with served(SmallWeb(grid(2, 3))) as first, served(SmallWeb(grid(2, 2))) as second:
        asyncio.run(run_both([first, second]))
    for place, pages in places.items():
        assert collection_status(folder_of(place)).pages == pages
        assert verify(folder_of(place)) == []


@pytest.fixture(scope="module")
def crawled(server: PostgresServer) -> str:
    """The address of a collection of 20 pages, crawled by the default strategy."""
    place = server.new_schema()
    with served(SmallWeb(grid(4, 5))) as web:
        crawl_into(place, settings_for(web, ["http://h0.example/0.html"], strategy="opilio"))
    return place


def test_status_and_verify_agree_with_the_crawl(crawled: str) -> None:
    folder = folder_of(crawled)
    found = collection_status(folder)
    assert (found.state, found.pages, found.queued, found.hosts) == ("stopped", 20, 0, 4)
    assert verify(folder) == []


def test_search_finds_pages_and_export_writes_them(crawled: str, tmp_path: Path) -> None:
    folder = folder_of(crawled)
    searcher = Searcher([folder])
    searcher.update_indexes()
    assert len(searcher.search("wren").hits) > 0
    for form in ("jsonl", "warc", "markdown"):
        assert export_to_file(folder, tmp_path / form, form, PageFilter()) == 20


def test_a_search_on_an_opensearch_server_finds_the_same_pages(crawled: str, dsn: str) -> None:
    folder, embedded = folder_of(dsn), Searcher([folder_of(crawled)])
    copy(folder_of(crawled), folder)
    embedded.update_indexes()
    with opensearch_double() as double:
        assert run_command(["maintain", "reindex", dsn, "--server", double.url]) == 0
        searcher = Searcher([folder])
        searcher.update_indexes()
        for query in ("wren", "title:h1", "host:h2.example"):
            assert searcher.search(query).total == embedded.search(query).total


def test_why_explains_a_page_and_its_path(crawled: str) -> None:
    explanation = why(folder_of(crawled), "http://h2.example/3.html")
    assert explanation.found
    assert explanation.path[0] == "http://h0.example/0.html"


def test_a_label_is_learnt_when_no_crawl_runs(crawled: str) -> None:
    folder = folder_of(crawled)
    report, problems = label_pages(folder, [LabelRequest("http://h1.example/1.html", False, "label")], 1.0, [])
    assert (report.labels, problems) == (1, [])
    assert collection_status(folder).relevant == 19
    label_pages(folder, [LabelRequest("http://h1.example/1.html", None, "label")], 2.0, [])


def test_a_worker_loads_the_models_that_the_trainer_published(crawled: str) -> None:
    async def run() -> None:
        collection = open_database(folder_of(crawled))
        settings, topic = collection_settings(collection), stored_topic(collection)
        meter = WorkerMeter("late")
        with closing(collection), closing(SharedConnection(crawled, DatabaseClock(), lambda _: None)) as shared:
            async with open_analysis(settings, topic, initial_states(settings, topic)) as analysis:
                commands = WorkerCommands(shared, meter, analysis, collection, HostRules())
                commands.poll(1.0)
            published = newer_models(collection.connection, 0)
            remove_worker(collection.connection, "late")
        assert meter.model_version == published[-1][0]
        for _, name, state in published:
            learner = analysis.parts.learners[name]
            assert (learner.worker_state() if isinstance(learner, Learns) else learner.snapshot()) == state

    asyncio.run(run())


def test_commands_take_the_address_of_a_database(crawled: str) -> None:
    done = opilio("status", crawled, "--json")
    assert json.loads(done.stdout)["pages"] == 20


def test_pages_of_the_web_interface_show_a_database(crawled: str, tmp_path: Path) -> None:
    folder = folder_of(crawled)
    routes = [route.path.replace("{name}", folder.name) for route in PAGES if "/c/{name}" in route.path]
    needed = "?url=http://h0.example/0.html&host=h0.example&q=wren"
    with pages_of([folder], tmp_path) as client:
        answers = {path: client.get(f"{path}.json{needed}").status for path in routes}
    assert set(answers.values()) <= {200, 400}, answers
    assert sum(status == 200 for status in answers.values()) >= 12, answers


def test_a_collection_is_copied_to_a_folder_a_database_and_another(
    crawled: str, dsn: str, server: PostgresServer, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    with opilio_api.open(folder_of(crawled)) as original:
        url = next(iter(original.pages())).url
        original.tag(url, "wren")
        original.lists.add("cite", url)
        original.searches.save("wrens", "wren")
        noted = original.note(url, "to quote")
    second = folder_of(server.new_schema())
    assert [copy(folder_of(crawled), folder), copy(folder, folder_of(dsn)), copy(folder_of(dsn), second)] == [20] * 3
    for place in (folder, folder_of(dsn), second):
        assert verify(place) == []
        assert collection_status(place).pages == 20
        with opilio_api.open(place) as copied:
            assert (copied.note(url), dict(copied.lists), list(copied.searches)) == (noted, {"cite": (url,)}, ["wrens"])
            assert [page.url for page in copied.pages(in_list="cite", tag="wren")] == [url]
    with pytest.raises(CollectionError, match="there is a collection already"):
        copy(folder, second)


def test_a_newer_schema_and_missing_rights_are_refused(dsn: str, connection: Database) -> None:
    with pytest.raises(CollectionError, match="not a collection"):
        open_database(folder_of(dsn))
    connection.execute("CREATE TABLE opilio_schema (version integer)")
    connection.execute("INSERT INTO opilio_schema VALUES (99)")
    with pytest.raises(CollectionError, match="was made by a newer Opilio"):
        open_database(folder_of(dsn))
    schema = connection.execute("SELECT current_schema()").fetchone()[0]
    connection.execute("CREATE USER reader")
    connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    connection.execute("DROP TABLE opilio_schema")
    with pytest.raises(CollectionError, match="permission denied"):
        create_in_database(folder_of(dsn.replace("user=postgres", "user=reader")), "", ())


def test_due_pages_are_revisited_and_older_versions_kept(dsn: str, connection: Database) -> None:
    pages = grid(2, 3)
    changed = "http://h1.example/2.html"
    with served(SmallWeb(pages)) as server:
        tree = settings_for(server, ["http://h0.example/0.html"])
        crawl_into(dsn, tree)
        # A week passes.
        week_s = 8 * 86_400.0
        connection.execute("UPDATE page SET fetched_at = fetched_at - ?", (week_s,))
        connection.execute("UPDATE revisit SET checked_at = checked_at - ?, tried_at = tried_at - ?", (week_s, week_s))
    with served(SmallWeb({**pages, changed: page(f"{BIRDS} entirely new words about nests", title="New")})) as server:
        revisit = {"on": True, "interval_s": 7 * 86_400.0, "probe": False}
        reason = crawl_into(dsn, settings_for(server, ["http://h0.example/0.html"], revisit=revisit))
        requests = [entry.target for entry in server.log if entry.target != "/robots.txt"]
    assert (reason.partition(";")[0], len(requests)) == (ALL_REVISITED_REASON, 6)
    assert [version.title for version in page_history(folder_of(dsn), changed).versions] == ["", "New"]
    assert verify(folder_of(dsn)) == []


def test_databases_are_merged_and_compacted(crawled: str, server: PostgresServer, tmp_path: Path) -> None:
    other, merged = server.new_schema(), server.new_schema()
    pages = {**grid(2, 3), "http://h0.example/0.html": page(f"{BIRDS} new", title="New")}
    with served(SmallWeb(pages)) as web:
        crawl_into(other, settings_for(web, ["http://h0.example/0.html"], strategy="opilio"))
    sources = [folder_of(crawled), folder_of(other)]
    result = merge(sources, folder_of(merged), 1.0)
    assert (result.pages, result.versions) == (20, 1)
    assert f"merged from {place_of(sources[0])}, " in collection_status(folder_of(merged)).stop_reason
    assert collection_status(folder_of(merged)).pages == 20
    assert verify(folder_of(merged)) == []
    done = compact(folder_of(merged), 2.0, versions=0)
    assert (done.records, done.versions_dropped) == (20, 1)
    assert done.bytes_after < done.bytes_before
    assert verify(folder_of(merged)) == []
    with pytest.raises(ConfigError, match="already exists"):
        merge(sources, folder_of(merged), 3.0)
    # Nothing is left beside the caches.
    assert not list(folder_of(merged).parent.glob("opilio-*"))


def test_a_worker_leaves_a_stopped_crawl_alone_when_asked_to(crawled: str) -> None:
    done = opilio("worker", crawled, "--workers", "0", "--no-resume")
    assert done.returncode == 0
    assert "the crawl was stopped (nothing left to fetch); it is not resumed" in done.stdout + done.stderr


# What undoes each step of the schema, newest first: a collection as an earlier version made it.
DOWNGRADES = {
    2: (
        "DROP TABLE page_tag, page_note, list_page, saved_search",
        # A column of pages that came later needs no step of its own.
        "ALTER TABLE page DROP COLUMN needs_browser",
        "ALTER TABLE version DROP COLUMN needs_browser",
    ),
    3: (
        "DROP INDEX warc_chunk_waiting",
        "ALTER TABLE warc_chunk DROP COLUMN object, DROP COLUMN start, DROP COLUMN length",
        "ALTER TABLE warc_chunk ALTER COLUMN data SET NOT NULL",
    ),
    4: ("ALTER TABLE outcome DROP COLUMN fetches",),
}


def _columns(db: Database) -> list[tuple[str, ...]]:
    """Every column of the collection's tables."""
    sql = """SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
        WHERE table_schema = current_schema() ORDER BY 1, 2"""
    return db.execute(sql).fetchall()


def test_a_collection_of_an_earlier_schema_is_upgraded_by_a_command(dsn: str, connection: Database) -> None:
    with served(SmallWeb(grid(2, 3))) as web:
        crawl_into(dsn, settings_for(web, ["http://h0.example/0.html"]))
    current = _columns(connection)
    for version, statements in sorted(DOWNGRADES.items(), reverse=True):
        for statement in statements:
            connection.execute(statement)
        connection.execute("UPDATE opilio_schema SET version = ?", (version - 1,))
    assert min(DOWNGRADES) == 2 and max(DOWNGRADES) == POSTGRES_SCHEMA_VERSION
    refused = opilio("status", dsn)
    assert refused.returncode == 1
    assert "stop all workers and run 'opilio maintain upgrade" in one_line(refused)
    report_worker(connection, "old-worker", WorkerFigures())
    assert "stop the workers first, then upgrade: old-worker" in one_line(opilio("maintain", "upgrade", dsn))
    remove_worker(connection, "old-worker")
    assert "upgraded" in opilio("maintain", "upgrade", dsn).stdout
    assert "has the current schema" in opilio("maintain", "upgrade", dsn).stdout
    assert _columns(connection) == current
    assert verify(folder_of(dsn)) == []


@pytest.mark.slow
def test_demo_runs_in_a_database_and_replaces_only_its_own_schemas(
    dsn: str, connection: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo(into=dsn, pages=100, quiet=True) == 0
    shown = capsys.readouterr().out
    place = re.search(r"The collection is in '(postgresql://.*)'\. Try", shown)
    assert place and "Relevant pages found" in shown
    assert collection_status(folder_of(place[1])).fetched == 100
    assert verify(folder_of(place[1])) == []
    replace_schema(place[1], MARKER_FILE)
    assert database_facts(place[1])["collection"] == "none"
    connection.execute("COMMENT ON SCHEMA opilio_demo_opilio IS 'mine'")
    with pytest.raises(UsageError, match="is not the demo's"):
        demo(into=dsn, pages=100, quiet=True)


def test_doctor_checks_a_database(crawled: str, dsn: str) -> None:
    facts = database_facts(crawled)
    assert (facts["schema"], facts["workers"], facts["waiting_results"]) == (POSTGRES_SCHEMA_VERSION, "none", 0)
    assert database_facts(dsn)["collection"] == "none"
