"""Bad input and servers that are away: one clear line, exit code 2, nothing lost."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checks.postgres_server import PostgresServer
from checks.small_webs import SmallWeb, crawl, grid, served, settings_for
from opilio.cli.main import run_command
from opilio.core.errors import CollectionError
from opilio.manage.status import collection_status
from opilio.store.postgres.cluster import database_facts
from opilio.store.postgres.collection import folder_of
from opilio.store.postgres.connection import ConnectionLostError, PostgresConnection

SEED = "http://h0.example/0.html"
# Every command that takes the address of a database: DB stands for it, DIR for a folder with a collection.
COMMANDS = f"""
crawl wrens --seed {SEED} --into DB
crawl --into DB
worker DB
worker DB --no-resume
serve DB --port 0
mcp DB
status DB
status DB --json
search DB wren
search DB wren --passages
search DB wren --save wrens
search DB --saved wrens
why DB {SEED}
why DB {SEED} --history
label DB {SEED} --relevant
label DB {SEED} --tag wren
export DB --out DIR/pages.jsonl
topic show DB
topic subtopics DB
lab tgraph show DB
maintain verify DB
maintain verify DB --look-only
maintain compact DB
maintain merge DIR DB --into DIR/new
maintain merge DIR/copy DIR --into DB
maintain copy DB DIR/new
maintain copy DIR DB
maintain upgrade DB
maintain reindex DB
maintain agents DB
maintain doctor DB
lab demo --into DB
"""


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection in a folder, with a copy in it."""
    place = tmp_path_factory.mktemp("collections") / "folder"
    with served(SmallWeb(grid(1, 2))) as web:
        crawl(place, settings_for(web, [SEED]))
        crawl(place / "copy", settings_for(web, [SEED]))
    return place


# (schema, what is changed in its address, what the message says)
ADDRESSES = [
    ("public", ("/postgres?", "127.0.0.1:1/none?"), "can't connect"),
    ("public", ("/postgres?", "me:secret@[::1/none?"), "not a valid address of a PostgreSQL database: end of string"),
    ("public", ("/postgres?", "/none?"), 'database "none" does not exist'),
    ("public", ("user=postgres", "user=unknown"), 'role "unknown" does not exist'),
    ("missing", ("", ""), "the schema of this address does not exist, or this user may not use it; create it"),
    ("hidden", ("user=postgres", "user=stranger"), "this user may not use it; create it, or grant the rights"),
]


@pytest.mark.parametrize(("schema", "change", "problem"), ADDRESSES, ids=[problem[:30] for _, _, problem in ADDRESSES])
def test_every_command_reports_a_database_that_it_can_not_use(
    schema: str,
    change: tuple[str, str],
    problem: str,
    server: PostgresServer,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = server.dsn(schema).replace(*change)
    if "127.0.0.1" in address:
        address = address.partition("?")[0]
    before = sorted(folder.rglob("*"))
    for line in COMMANDS.strip().splitlines():
        words = [word.replace("DIR", str(folder)).replace("DB", address) for word in line.split()]
        if words[:2] == ["lab", "demo"] and schema != "public":
            continue  # it has schemas of its own
        code, (out, err) = run_command(words), capsys.readouterr()
        assert (code, out, len(err.splitlines())) == (2, "", 1), (line, out, err)
        assert problem in err and "secret" not in err, (line, err)
    assert sorted(folder.rglob("*")) == before


@pytest.fixture(scope="module", autouse=True)
def _stranger(server: PostgresServer) -> None:
    """A schema, and a user that may connect but not use it."""
    with closing(PostgresConnection(server.dsn())) as db:
        db.execute("CREATE SCHEMA hidden")
        db.execute("CREATE USER stranger")


def test_a_crawl_that_can_not_be_resumed_is_refused_and_changes_nothing(
    dsn: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["maintain", "copy", str(folder), dsn]) == 0
    assert capsys.readouterr().out == "2 pages copied\n"
    before = collection_status(folder_of(dsn))
    assert run_command(["crawl", "trains", "--strategy", "breadth", "--seed", SEED, "--into", dsn]) == 2
    refused = capsys.readouterr().err
    assert "was started with 'wrens and other small birds'" in refused
    assert str(folder_of(dsn)) not in refused
    assert collection_status(folder_of(dsn)) == before


def test_agents_are_refused_before_a_collection_is_made(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["crawl", "wrens", "--seed", SEED, "--set", "agents.count=2", "--into", dsn]) == 2
    assert "leave out [agents], or use a folder" in capsys.readouterr().err
    assert database_facts(dsn)["collection"] == "none"


def test_a_statement_that_takes_too_long_is_not_repeated(connection: PostgresConnection) -> None:
    connection.execute("SET statement_timeout = '1ms'")
    with pytest.raises(CollectionError, match="statement timeout; is the server overloaded") as caught:
        connection.execute("SELECT pg_sleep(1)")
    assert not isinstance(caught.value, ConnectionLostError)
